// Looks at the pages of the history in Chromium: site.mjs UNHANG MODULES [SCREENSHOTS]
// A store of twelve nodes and a run that failed three times and then passed. Each page is served, light and dark, 390 and 1,600 pixels wide, and
// as paper: nothing overflows, axe finds nothing, no script and no request to others.
import { execFileSync, spawn } from 'node:child_process';
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
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'unhang-site-')), store = path.join(work, 'store');

let count = 0, failed = 0;
function ok(good, name, why) {
	count++;
	failed += !good;
	console.log(`${good ? 'ok' : 'not ok'} ${count} - ${name}`);
	if (!good && why)
		console.log(JSON.stringify(why, null, 1).replace(/^/gm, '# '));
}

/** A job that fails in three ways, and passes. */
const JOB = `n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count
case $n in
0) echo 'Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f3a00001000. Reason: Page not present or supervisor privilege.' >&2; kill -ABRT $$;;
1) echo 'torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 191.98 GiB of which 1.00 GiB is free.' >&2; exit 1;;
2) kill -SEGV $$;;
esac`;

execFileSync('python3', [path.join(top, 'tests/histories.py'), path.join(store, 'history')], { cwd: path.join(top, 'tests') });
try {
	execFileSync(unhang, ['run', '--state-dir', path.join(store, 'runs'), '--restart', '4', '--delay', '0', '--', 'sh', '-c', JOB], { cwd: work, stdio: ['ignore', 'pipe', 'pipe'] });
} catch (e) { /* its status is the job's */ }
const socket = 20000 + Math.floor(Math.random() * 20000);
const server = spawn(unhang, ['serve', '--store', store, '--listen', String(socket)], { stdio: ['ignore', 'pipe', 'inherit'] });
await new Promise(resolve => server.stdout.once('data', resolve));
const base = `http://127.0.0.1:${socket}`;

async function look(browser, name, address) {
	for (const scheme of ['light', 'dark'])
		for (const width of [390, 1600]) {
			const page = await browser.newPage(), left = [], label = `${name}, ${scheme}, ${width}`;
			page.on('request', r => r.url().startsWith(base) || r.url().startsWith('data:') || left.push(r.url()));
			await page.setViewport({ width, height: width === 390 ? 844 : 1000 });
			await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
			const answer = await page.goto(base + address);
			ok([200, 304].includes(answer.status()), `${label}: it is there`, answer.status());
			const seen = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, paper: getComputedStyle(document.body).backgroundColor, scripts: document.scripts.length }));
			ok(seen.wide <= width && !seen.scripts, `${label}: nothing overflows, and there is no script`, seen);
			ok((/rgb\((\d+)/.exec(seen.paper)[1] < 128) === (scheme === 'dark'), `${label}: its paper is as asked for`, seen.paper);
			await page.evaluate(axe);
			const found = await page.evaluate(() => window.axe.run());
			ok(!found.violations.length, `${label}: axe finds nothing`, found.violations.map(v => `${v.id}: ${v.nodes.slice(0, 2).map(n => n.html)}`));
			ok(!left.length, `${label}: no request leaves`, left);
			if (pictures)
				await page.screenshot({ path: path.join(pictures, `site-${name}-${scheme}-${width}.png`), fullPage: width === 390 });
			await page.close();
		}
	const page = await browser.newPage();
	await page.goto(base + address);
	const paper = await page.pdf({ format: 'a4' });
	ok(paper.length > 2000, `${name}: it can be printed`);
	if (pictures)
		fs.writeFileSync(path.join(pictures, `site-${name}.pdf`), paper);
	await page.keyboard.press('Tab');
	const first = await page.evaluate(() => document.activeElement.tagName);
	ok(first === 'A', `${name}: Tab reaches the links`, first);
	await page.close();
}

const browser = await puppeteer.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
try {
	const incident = JSON.parse(execFileSync(unhang, ['history', '--store', store, '--json', '--open'])).incidents[0].id;
	const page = await browser.newPage();
	await page.goto(`${base}/runs`);
	const run = await page.evaluate(() => document.querySelector('a[href*="run/"]')?.getAttribute('href'));
	await page.close();
	ok(run, 'the run is listed');
	for (const [name, address] of [['overview', '/'], ['incidents', '/incidents'], ['incident', `/incident/${incident}`], ['runs', '/runs'], ['run', run], ['machines', '/machines'], ['machine', '/machine/gpu-03']])
		await look(browser, name, address);
} finally {
	await browser.close();
	server.kill();
	fs.rmSync(work, { recursive: true, force: true });
}
console.log(`1..${count}\n${count - failed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
