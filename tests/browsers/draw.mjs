// How long Chromium takes from the address of a report to its picture, and to its table of waves unfolded: draw.mjs MODULES FILE
// Prints the two in milliseconds: the least of five tries, because other programs run too.
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, file] = process.argv.slice(2).map(name => path.resolve(name));
const puppeteer = (await import(pathToFileURL(createRequire(path.join(modules, 'x.js')).resolve('puppeteer-core')))).default;
const browser = await puppeteer.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
let drawn = Infinity, unfolded = Infinity;
for (let n = 0; n < 5; n++) {
	const page = await browser.newPage();
	await page.setViewport({ width: 1280, height: 720 });
	await page.goto(pathToFileURL(file).href);
	const times = await page.evaluate(() => new Promise(done => {
		const loaded = performance.now();
		const waves = document.querySelector('details[id^=waves]');
		if (waves)
			waves.open = true;
		requestAnimationFrame(() => setTimeout(() => done([loaded, performance.now() - loaded])));
	}));
	drawn = Math.min(drawn, times[0]);
	unfolded = Math.min(unfolded, times[1]);
	await page.close();
}
await browser.close();
console.log(drawn.toFixed(0), unfolded.toFixed(0));
