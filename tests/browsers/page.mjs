// Uses the page of `make web` in real browsers, from a file: page.mjs UNHANG PAGE MODULES [SCREENSHOTS]. No request may leave; what it saves is
// what the program writes; hostile files stay text. MODULES: a folder with node_modules.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const top = path.resolve(path.dirname(new URL(import.meta.url).pathname), '..', '..');
const [unhang, file, modules, pictures] = process.argv.slice(2).map(name => path.resolve(name));
const require = createRequire(path.join(modules, 'x.js'));
const puppeteer = (await import(pathToFileURL(require.resolve('puppeteer-core')))).default;
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'unhang-page-'));
const BROWSERS = {
	chromium: { browser: 'chrome', executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] },
	firefox: { browser: 'firefox', executablePath: '/usr/bin/firefox-esr' },
};
const SIZES = { wide: { width: 1280, height: 720 }, phone: { width: 360, height: 740 } };
const WAIT = { timeout: 120000 };

let count = 0, failed = 0;
function ok(good, name, why) {
	count++;
	failed += !good;
	console.log(`${good ? 'ok' : 'not ok'} ${count} - ${name}`);
	if (!good && why !== undefined)
		console.log(String(typeof why === 'string' ? why : JSON.stringify(why, null, 1)).slice(0, 2000).replace(/^/gm, '# '));
}

function written(name, data) {
	const to = path.join(work, name);
	fs.mkdirSync(path.dirname(to), { recursive: true });
	fs.writeFileSync(to, data);
	return to;
}

/** What the program answers, in the directory of the files. */
function program(...paths) {
	const options = { cwd: work, env: { PATH: process.env.PATH, HOME: work, LC_ALL: 'C.UTF-8', TZ: 'UTC', UNHANG_CONTAINER: 'no' }, maxBuffer: 64 << 20, stdio: 'pipe' };
	try {
		return String(execFileSync(unhang, ['explain', '--json', ...paths], options));
	} catch (e) {
		return String(e.stdout); // an incident
	}
}

async function opened(browser, view) {
	const page = await browser.newPage();
	page.left = [];
	page.said = [];
	page.on('request', r => {
		if (r.url() !== pathToFileURL(file).href && !/^(blob|data|about):/.test(r.url()))
			page.left.push(r.url());
	});
	page.on('console', m => page.said.push(m.text()));
	page.on('dialog', d => {
		page.said.push(`dialog: ${d.message()}`);
		d.dismiss();
	});
	await page.setViewport(view);
	// Whatever is saved is kept, instead of downloaded.
	await page.evaluateOnNewDocument(() => {
		const make = URL.createObjectURL;
		URL.createObjectURL = blob => {
			window.saved = blob;
			return make.call(URL, blob);
		};
		HTMLAnchorElement.prototype.click = () => {};
	});
	await page.goto(pathToFileURL(file).href);
	await page.waitForFunction(() => document.body.dataset.state === 'ready', WAIT);
	return page;
}

const states = wanted => wanted.includes(document.body.dataset.state);
async function answered(page) {
	await page.waitForFunction(states, WAIT, ['explained', 'failed']);
	return page.evaluate(() => ({ ...document.body.dataset, problems: [...document.querySelectorAll('#problem-list li')].map(e => e.textContent) }));
}

async function give(page, ...paths) {
	await page.evaluate(() => { document.body.dataset.state = ''; });
	const input = await page.$('#files');
	await input.uploadFile(...paths);
	return answered(page);
}

async function saved(page, kind) {
	await page.evaluate(() => { window.saved = null; });
	await page.click(`[data-save=${kind}]`);
	await page.waitForFunction(() => window.saved, WAIT);
	return page.evaluate(() => window.saved.text());
}

/** The visible text of the report. */
async function reported(page) {
	const frame = await (await page.waitForSelector('#report')).contentFrame();
	await frame.waitForSelector('h1', WAIT);
	return frame.evaluate(() => document.body.innerText);
}

async function pasted(page, kind) {
	await page.evaluate(text => {
		document.body.dataset.state = '';
		document.getElementById('paste').value = text;
	}, fs.readFileSync(path.join(top, 'docs/sample-dmesg.txt'), 'utf8'));
	await page.click('#explain');
	const answer = await answered(page);
	ok(answer.state === 'explained' && /unmapped memory/.test(await reported(page)), `${kind}: a pasted log is explained (${answer.milliseconds} ms)`, answer);
	await page.click('#again');
}

async function files(page, kind) {
	const dmesg = written('dmesg.txt', fs.readFileSync(path.join(top, 'docs/sample-dmesg.txt')));
	const server = written('server.log', fs.readFileSync(path.join(top, 'docs/sample-server.log')));
	let answer = await give(page, server, dmesg);
	ok(answer.state === 'explained' && await saved(page, 'json') === program('server.log', 'dmesg.txt'), `${kind}: the JSON of two files is the program's`, answer);
	ok(/assertion/i.test(await saved(page, 'text')) && /^## |^\*\*/m.test(await saved(page, 'markdown')), `${kind}: text and Markdown are saved`);
	const html = await saved(page, 'html');
	ok(html.startsWith('<!DOCTYPE html>') && html.includes("default-src 'none'"), `${kind}: the report is saved`, html.slice(0, 200));
	await page.click('#again');
	execFileSync('tar', ['czf', path.join(work, 'logs.tar.gz'), '-C', work, 'dmesg.txt', 'server.log']);
	answer = await give(page, path.join(work, 'logs.tar.gz'));
	ok(answer.state === 'explained' && await saved(page, 'json') === program('logs.tar.gz'), `${kind}: so is that of an archive`, answer);
	await page.click('#again');
	answer = await give(page, written('empty.txt', ''));
	ok(answer.problems.join() === 'empty.txt: the file is empty' && await page.$eval('#give', e => !e.hidden), `${kind}: an empty file is a problem, and another can be given`, answer);
}

/** A folder, with folders in it. */
async function folder(page, kind) {
	written('evidence/dmesg.txt', fs.readFileSync(path.join(top, 'docs/sample-dmesg.txt')));
	written('evidence/ranks/0.log', fs.readFileSync(path.join(top, 'docs/sample-server.log')));
	await page.evaluate(() => { document.body.dataset.state = ''; });
	await (await page.$('#folder')).uploadFile(path.join(work, 'evidence'));
	const answer = await answered(page);
	ok(answer.state === 'explained' && await saved(page, 'json') === program('evidence'), `${kind}: a folder is explained as the program does`, answer);
	await page.click('#again');
}

/** Files and a folder, dropped from a file manager. */
async function dropped(page, kind) {
	const client = await page.createCDPSession();
	for (const names of [['server.log', 'dmesg.txt'], ['evidence']]) {
		await page.evaluate(() => { document.body.dataset.state = ''; });
		const data = { items: [], files: names.map(name => path.join(work, name)), dragOperationsMask: 1 };
		for (const type of ['dragEnter', 'dragOver', 'drop'])
			await client.send('Input.dispatchDragEvent', { type, x: 200, y: 200, data });
		const answer = await answered(page);
		ok(answer.state === 'explained' && await saved(page, 'json') === program(...names), `${kind}: ${names.join(' and ')}, dropped, as the program does`, answer);
		await page.click('#again');
	}
	await client.detach();
}

/** Where something is absent, the report says so. */
async function core(page, kind) {
	await give(page, path.join(top, 'docs/sample-gpucore'), path.join(top, 'docs/sample-kernel.co'));
	const frame = await (await page.$('#report')).contentFrame();
	await frame.waitForSelector('h1', WAIT);
	const text = await frame.evaluate(() => document.body.textContent);
	ok(/gather_rows/.test(text) && /this page has no disassembler/.test(text) && /does not read debug information/.test(text), `${kind}: the report of a core says what the page lacks`, text.slice(0, 500));
	if (pictures)
		await page.screenshot({ path: path.join(pictures, `page-${kind}-core.png`) });
	await page.click('#again');
}

async function hostile(page, kind) {
	const name = '"><img src=x onerror=alert(1)>.log';
	const line = 'amdgpu 0000:2f:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770, for process </title><script>alert(2)</script> pid 4242)\n';
	const answer = await give(page, written(name, fs.readFileSync(path.join(top, 'docs/sample-dmesg.txt'), 'utf8') + line + '\u202e\x1b[31m\0'));
	await reported(page);
	ok(answer.state === 'explained' && !page.said.some(s => s.startsWith('dialog')), `${kind}: hostile names and lines stay text`, page.said);
	const frame = await (await page.$('#report')).contentFrame();
	const text = await frame.evaluate(() => document.body.textContent);
	ok(await frame.evaluate(() => !document.querySelector('img, script[src]')) && text.includes(name), `${kind}: and are shown as such`, text.slice(0, 500));
	await page.click('#again');
	const bad = await give(page, written('<b>bad', ''));
	ok(bad.problems[0] === '<b>bad: the file is empty' && await page.$eval('#problem-list', e => !e.querySelector('b')), `${kind}: so do those of problems`, bad);
}

async function large(page, kind) {
	const idle = 'Jul 24 12:28:27 host systemd[1]: Started Session 1 of User root.\n';
	const big = written('big.log', Buffer.concat([Buffer.alloc(100 << 20, idle), Buffer.from('\n'), fs.readFileSync(path.join(top, 'docs/sample-dmesg.txt'))]));
	const answer = await give(page, big);
	ok(answer.state === 'explained' && Number(answer.memory) <= 64 << 20, `${kind}: 100 MB are explained in ${answer.memory >> 20} MB of memory (${answer.milliseconds} ms)`, answer);
	ok(await saved(page, 'json') === program('big.log'), `${kind}: as the program does`);
	await page.click('#again');
	await page.evaluate(() => { document.body.dataset.state = ''; });
	await (await page.$('#files')).uploadFile(big);
	await page.waitForFunction(() => !document.getElementById('work').hidden, WAIT);
	await page.evaluate(() => document.getElementById('stop').click());
	await page.waitForFunction(() => document.body.dataset.state === 'ready' && !document.getElementById('give').hidden, WAIT);
	await pasted(page, `${kind}, after a stop`);
}

async function look(page, kind, size) {
	const view = SIZES[size];
	for (const scheme of kind === 'chromium' ? ['light', 'dark'] : ['light']) {
		if (kind === 'chromium')
			await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
		await page.evaluate(() => { document.getElementById('absent').open = true; });
		const wide = await page.evaluate(() => document.documentElement.scrollWidth);
		ok(wide <= view.width, `${kind}, ${size}, ${scheme}: nothing is cut off`, wide);
		await page.evaluate(axe);
		const found = await page.evaluate(() => window.axe.run(document, { iframes: false }));
		const serious = found.violations.filter(v => v.impact === 'serious' || v.impact === 'critical');
		ok(!serious.length, `${kind}, ${size}, ${scheme}: axe finds nothing serious`, serious.map(v => `${v.id}: ${v.nodes.map(n => n.html)}`));
		if (pictures)
			await page.screenshot({ path: path.join(pictures, `page-${kind}-${scheme}-${size}.png`) });
	}
}

for (const [kind, options] of Object.entries(BROWSERS)) {
	if (!fs.existsSync(options.executablePath)) {
		console.log(`ok ${++count} - ${kind} # SKIP ${options.executablePath} is not installed`);
		continue;
	}
	const browser = await puppeteer.launch(options);
	for (const size of Object.keys(SIZES)) {
		const page = await opened(browser, SIZES[size]);
		await look(page, kind, size);
		for (const test of size !== 'wide' ? [pasted] : kind === 'chromium' ? [pasted, files, folder, dropped, core, hostile, large] : [pasted, files, core, hostile, large])
			await test(page, kind);
		ok(!page.left.length, `${kind}, ${size}: no request leaves`, page.left);
		ok(!page.said.some(s => /Content.Security.Policy|violates/i.test(s)), `${kind}, ${size}: nothing is tried that its policy forbids`, page.said);
		await page.close();
	}
	await browser.close();
}
fs.rmSync(work, { recursive: true });
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
