// The pictures of docs/: pictures.mjs UNHANG MODULES FOLDER
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [unhang, modules, folder] = process.argv.slice(2).map(name => path.resolve(name));
const puppeteer = (await import(pathToFileURL(createRequire(path.join(modules, 'x.js')).resolve('puppeteer-core')))).default;
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'unhang-pictures-'));

// A name, its sources, the size of the window, light or dark.
const PICTURES = [
	['core', ['explain', 'docs/sample-gpucore'], [820, 620], 'light'],
	['lanes-phone', ['explain', 'docs/sample-server.log'], [360, 740], 'light'],
	['hung', ['emulate', 'mi300-xcc-stuck', '--', unhang, 'live'], [820, 620], 'light'],
];

const browser = await puppeteer.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--font-render-hinting=none'] });
for (const [name, command, [width, height], scheme] of PICTURES) {
	const file = path.join(work, `${name}.html`);
	try {
		execFileSync(unhang, [...command, '--html', file].flat(), { stdio: 'ignore' });
	} catch (e) { /* it has an incident */ }
	if (!fs.existsSync(file)) {
		console.log(`${name}: no report can be made here; its picture stays as it is`);
		continue;
	}
	const page = await browser.newPage();
	await page.setViewport({ width, height });
	await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
	await page.goto(pathToFileURL(file).href);
	await page.screenshot({ path: path.join(folder, `${name}.webp`), type: 'webp', quality: 60 });
	await page.close();
}
await browser.close();
fs.rmSync(work, { recursive: true });
