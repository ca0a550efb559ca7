// In the page's worker, behind module.js: explains what the page hands over, and writes reports of the newest explanation.
"use strict";

const PROGRESS_MS = 100;
let compiled = null;
let prepared = null; // an instance that has read its knowledge, for the next explanation
let unhang = null; // that of the newest

function sourceOf(blob) {
	const reader = new FileReaderSync();
	return { size: blob.size, read: (offset, n) => new Uint8Array(reader.readAsArrayBuffer(blob.slice(offset, offset + n))) };
}

function byBytes(a, b) {
	const [x, y] = [a, b].map(text => new TextEncoder().encode(text));
	for (let i = 0; i < x.length && i < y.length; i++)
		if (x[i] !== y[i])
			return x[i] - y[i];
	return x.length - y.length;
}

/** Tells how much of @total was read, some times a second. */
function progressOf(total) {
	let done = 0, told = 0;
	return n => {
		done += n;
		const now = performance.now();
		if (now - told < PROGRESS_MS)
			return;
		told = now;
		postMessage({ type: "progress", done: Math.min(done, total), total });
	};
}

function prepare() {
	return new Unhang(compiled, { keep: bytes => sourceOf(new Blob([bytes])), problem: () => {} });
}

/** Browsers compile code when it runs first: a small log makes them do it before somebody waits. */
function warmUp() {
	const first = prepare();
	first.addBytes("warm-up", new TextEncoder().encode("[ 1.0] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)\n"));
	first.end();
	first.report(REPORT.html);
}

/** What the first incident's answer ends with: the question with its replies, or null. */
function questionOf(answered) {
	const { incidents } = JSON.parse(new TextDecoder().decode(answered.report(REPORT.json)));
	return incidents[0]?.question ?? null;
}

function explain({ files, text, answer }) {
	const began = performance.now();
	const next = prepared ?? prepare();
	unhang = prepared = null; // the memory of the last one can go before more is needed
	next.host.problem = message => postMessage({ type: "problem", message });
	next.host.read = progressOf(files.reduce((sum, { blob }) => sum + blob.size, 0));
	next.give(files.map(({ name, blob }) => [name, sourceOf(blob)]));
	const tops = new Set(files.map(({ name }) => name.split("/")[0]));
	[...tops].sort(byBytes).forEach(name => next.addPath(name));
	if (text)
		next.addBytes("pasted text", new TextEncoder().encode(text));
	if (answer)
		next.answer(answer);
	next.end();
	unhang = next;
	const sources = next.main.page_sources(next.page);
	const html = sources ? next.report(REPORT.html) : null;
	const milliseconds = performance.now() - began;
	postMessage({ type: "explained", sources, html, question: sources ? questionOf(next) : null, milliseconds, memory: next.memory });
	setTimeout(() => {
		prepared ??= prepare();
	});
}

const TASKS = {
	load: ({ bytes }) => {
		compiled = new WebAssembly.Module(bytes);
		warmUp();
		prepared = prepare();
		postMessage({ type: "ready" });
	},
	explain,
	report: ({ kind, redact }) => postMessage({ type: "report", kind, bytes: unhang.report(REPORT[kind], redact) }),
};

onmessage = ({ data }) => {
	try {
		TASKS[data.type](data);
	} catch (error) {
		const memory = error instanceof RangeError || (error instanceof ModuleExit && error.status === 2);
		postMessage({ type: "failed", message: memory ? "This needs more memory than a page can have. Use the program." : String(error) });
	}
};
