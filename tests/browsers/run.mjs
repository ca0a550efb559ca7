// Looks at reports in real browsers: run.mjs UNHANG MODULES [SCREENSHOTS]
// Every report is opened from a file in Chromium and Firefox, light and dark, as wide as a screen and as a phone. What a reader needs at once
// has to lie on the first screen; no request may leave; without script everything can be read. MODULES: a folder with node_modules.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const top = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '..', '..');
const [unhang, modules, pictures] = process.argv.slice(2).map(name => path.resolve(name));
const require = createRequire(path.join(modules, 'x.js'));
const puppeteer = (await import(pathToFileURL(require.resolve('puppeteer-core')))).default;
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'unhang-browsers-'));

const SIZES = { wide: { width: 1280, height: 720 }, phone: { width: 360, height: 740 } };
// What has to be seen without scrolling.
const FIRST = ['h1', '.gpu', '.host', '.time', '.now', '.fault', '.fit', '.sure'];
const logs = name => fs.readdirSync(path.join(top, 'tests/logs', name)).filter(f => f !== 'case.json').map(f => path.join(top, 'tests/logs', name, f));
const REPORTS = {
	'core': [path.join(top, 'docs/sample-gpucore')],
	'page-fault': [path.join(top, 'docs/sample-dmesg.txt')],
	'server': [path.join(top, 'docs/sample-server.log')],
	'ranks': logs('rccl-watchdog-lagging-rank'),
	'hardware': logs('ras-memory-poison-mi300x-6.8'),
	'off-bus': logs('off-the-bus-mi250-5.19'),
	'memory': logs('torch-out-of-memory'),
	'scheduler': logs('mes-remove-queue-navi32-6.10'),
	'oops': logs('oops-in-driver-6.15'),
	'game': logs('game-soft-recovered-navi23-6.1'),
	'two-gpus': logs('two-gpus-interleaved-6.12'),
};

let count = 0, failed = 0;
function ok(good, name, why) {
	count++;
	failed += !good;
	console.log(`${good ? 'ok' : 'not ok'} ${count} - ${name}`);
	if (!good && why)
		console.log(String(typeof why === 'string' ? why : JSON.stringify(why, null, 1)).replace(/^/gm, '# '));
}

function write(name, sources) {
	const file = path.join(work, `${name}.html`);
	try {
		execFileSync(unhang, ['explain', '--html', file, ...sources], { stdio: ['ignore', 'ignore', 'inherit'] });
	} catch (e) {
		if (e.status !== 1) // an incident
			throw e;
	}
	return file;
}

/** An emulated machine with a hung GPU, where one can be had. */
function writeEmulated(name) {
	const file = path.join(work, `${name}.html`);
	try {
		execFileSync(unhang, ['emulate', name, '--', unhang, 'live', '--html', file], { stdio: 'ignore', timeout: 60000 });
	} catch (e) { /* it has an incident, or there is no machine */ }
	return fs.existsSync(file) ? file : null;
}

function opened(page, file) {
	const left = [];
	page.on('request', r => {
		if (r.url() !== pathToFileURL(file).href && !r.url().startsWith('data:'))
			left.push(r.url());
	});
	return left;
}

/** Runs in the page. */
function firstScreen(selectors) {
	const boxes = {};
	for (const s of selectors) {
		const e = document.querySelector(s), b = e && e.getBoundingClientRect();
		boxes[s] = b && { top: b.top, bottom: b.bottom, left: b.left, right: b.right };
	}
	return { boxes, wide: document.documentElement.scrollWidth, paper: getComputedStyle(document.body).backgroundColor };
}

async function look(browser, kind, scheme, name, file) {
	for (const [size, view] of Object.entries(SIZES)) {
		const page = await browser.newPage();
		const label = `${kind}, ${scheme}, ${size}: ${name}`;
		const left = opened(page, file);
		await page.setViewport(view);
		if (kind === 'chromium')
			await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
		await page.goto(pathToFileURL(file).href);
		const seen = await page.evaluate(firstScreen, FIRST);
		const hidden = FIRST.filter(s => !seen.boxes[s] || seen.boxes[s].bottom > view.height || seen.boxes[s].right > view.width + 1 || seen.boxes[s].left < 0);
		ok(!hidden.length && seen.wide <= view.width, `${label}: the answer is on the first screen`, { hidden, seen });
		const dark = /rgb\((\d+)/.exec(seen.paper)[1] < 128;
		ok(dark === (scheme === 'dark'), `${label}: its paper is as asked for`, seen.paper);
		await page.evaluate(axe);
		const found = await page.evaluate(() => window.axe.run());
		const serious = found.violations.filter(v => v.impact === 'serious' || v.impact === 'critical');
		ok(!serious.length, `${label}: axe finds nothing serious`, serious.map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => n.html + ' ' + n.failureSummary)}`));
		ok(!left.length, `${label}: no request leaves`, left);
		if (pictures)
			await page.screenshot({ path: path.join(pictures, `${kind}-${scheme}-${size}-${name}.png`) });
		await page.close();
	}
}

/** The text that a page lays out, asked of the browser itself: scripts may be off. */
async function laidOut(page) {
	const client = await page.createCDPSession();
	const { documents, strings } = await client.send('DOMSnapshot.captureSnapshot', { computedStyles: [] });
	return documents[0].layout.text.filter(n => n >= 0).map(n => strings[n]).join(' ').replace(/\s+/g, ' ');
}

async function withoutScript(browser, kind, name, file) {
	const page = await browser.newPage(), scripted = await browser.newPage();
	await page.setJavaScriptEnabled(false);
	await page.goto(pathToFileURL(file).href);
	const before = await laidOut(page);
	ok(!/\b(Copy|Zoom|Filter)\b/.test(before), `${kind}: ${name}: without script no button is there that does nothing`);
	// Each fold is opened by its key, as a browser does it by itself.
	for (let n = 0; n < 200; n++) {
		await page.keyboard.press('Tab');
		await page.keyboard.press('Space');
	}
	await scripted.goto(pathToFileURL(file).href);
	await scripted.evaluate(() => document.querySelectorAll('details').forEach(d => { d.open = true; }));
	const plain = await laidOut(page), full = await laidOut(scripted);
	const lacks = [...new Set(full.split(' '))].filter(word => !plain.includes(word) && !before.includes(word) && !['Copy', 'Zoom'].includes(word));
	ok(plain.length > before.length && !lacks.length, `${kind}: ${name}: without script everything can be read`, lacks);
	await page.close();
	await scripted.close();
}

/** Tab reaches what can be used, and Enter unfolds. */
async function byKeyboard(browser, kind, name, file) {
	const page = await browser.newPage();
	await page.goto(pathToFileURL(file).href);
	const reached = [];
	for (let n = 0; n < 30; n++) {
		await page.keyboard.press('Tab');
		reached.push(await page.evaluate(() => document.activeElement.tagName));
		if (reached.at(-1) === 'SUMMARY')
			break;
	}
	ok(reached.includes('BUTTON') && reached.includes('A') && reached.at(-1) === 'SUMMARY', `${kind}: ${name}: Tab reaches buttons, links and folds`, reached);
	const before = await page.evaluate(() => document.activeElement.parentElement.open);
	await page.keyboard.press('Enter');
	ok(before !== await page.evaluate(() => document.activeElement.parentElement.open), `${kind}: ${name}: Enter unfolds`);
	await page.close();
}

async function printed(browser, kind, name, file) {
	const page = await browser.newPage();
	await page.goto(pathToFileURL(file).href);
	const pdf = await page.pdf({ format: 'A4' });
	ok(Buffer.from(pdf.slice(0, 5)).toString() === '%PDF-' && pdf.length > 8000, `${kind}: ${name}: prints (${pdf.length} bytes)`);
	if (pictures)
		fs.writeFileSync(path.join(pictures, `${kind}-${name}.pdf`), pdf);
	await page.close();
}

const BROWSERS = {
	chromium: scheme => ({ browser: 'chrome', executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] }),
	firefox: scheme => ({ browser: 'firefox', executablePath: '/usr/bin/firefox-esr', extraPrefsFirefox: { 'layout.css.prefers-color-scheme.content-override': scheme === 'dark' ? 0 : 1 } }),
};

const only = (process.env.UNHANG_REPORTS ?? '').split(' ').filter(Boolean); // of a hurried person
const files = Object.fromEntries(Object.entries(REPORTS).filter(([name]) => !only.length || only.includes(name)).map(([name, sources]) => [name, write(name, sources)]));
const emulated = !only.length && writeEmulated('mi300-xcc-stuck');
if (emulated)
	files.hung = emulated;
else if (!only.length)
	console.log('# no machine can be emulated here: without the report of a hung GPU');
for (const [kind, options] of Object.entries(BROWSERS)) {
	if (!fs.existsSync(options('light').executablePath)) {
		console.log(`ok ${++count} - ${kind} # SKIP ${options('light').executablePath} is not installed`);
		continue;
	}
	for (const scheme of ['light', 'dark']) {
		const browser = await puppeteer.launch(options(scheme));
		for (const [name, file] of Object.entries(files))
			await look(browser, kind, scheme, name, file);
		if (scheme === 'light') {
			for (const name of ['core', 'page-fault'].filter(n => files[n]))
				for (const test of kind === 'chromium' ? [withoutScript, byKeyboard, printed] : [byKeyboard, printed])
					await test(browser, kind, name, files[name]);
		}
		await browser.close();
	}
}
fs.rmSync(work, { recursive: true });
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
