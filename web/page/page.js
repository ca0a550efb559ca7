// The page: takes files or text, has the worker explain them, and shows the report. The worker can be stopped at any time.
"use strict";

const FILES_MOST = 4096;
const SAVED = { html: ["unhang-report.html", "text/html"], text: ["unhang.txt", "text/plain"], json: ["unhang.json", "application/json"],
	markdown: ["unhang.md", "text/markdown"] };
const at = id => document.getElementById(id);

function show(...ids) {
	for (const id of ["give", "work", "answer"])
		at(id).hidden = !ids.includes(id);
	document.body.classList.toggle("answered", ids.includes("answer"));
}

// --- the worker ---

let worker = null, moduleBytes = null;

async function unpackModule() {
	const packed = Uint8Array.from(atob(at("module").textContent), c => c.charCodeAt(0));
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

function startWorker() {
	const source = new Blob([at("worker-source").textContent], { type: "text/javascript" });
	const url = URL.createObjectURL(source);
	worker = new Worker(url);
	worker.onmessage = ({ data }) => ANSWERS[data.type](data);
	worker.onerror = event => failed({ message: event.message || "The worker could not be started." });
	worker.postMessage({ type: "load", bytes: moduleBytes });
}

const ANSWERS = {
	ready: () => {
		document.body.dataset.state = "ready";
	},
	progress: ({ done, total }) => {
		at("progress").value = total ? done / total : 0;
	},
	problem: ({ message }) => {
		const item = document.createElement("li");
		item.textContent = message;
		at("problem-list").append(item);
		at("problems").hidden = false;
	},
	explained: answer => explained(answer),
	report: ({ kind, bytes }) => save(kind, bytes),
	failed: answer => failed(answer),
};

// --- what was given ---

/** Files below an entry that was dropped, with their paths. */
async function* filesOf(entry) {
	if (entry.isFile) {
		const blob = await new Promise((good, bad) => entry.file(good, bad));
		yield { name: entry.fullPath.replace(/^\//, ""), blob };
		return;
	}
	const reader = entry.createReader();
	for (;;) {
		const some = await new Promise((good, bad) => reader.readEntries(good, bad));
		if (!some.length)
			return;
		for (const below of some)
			yield* filesOf(below);
	}
}

async function* filesBelow(directory, path) {
	for await (const [name, handle] of directory.entries())
		if (handle.kind === "file")
			yield { name: `${path}/${name}`, blob: await handle.getFile() };
		else
			yield* filesBelow(handle, `${path}/${name}`);
}

/** Files of the same name that come from several places. */
function withOwnNames(files) {
	const names = new Set();
	return files.map(({ name, blob }) => {
		let own = name;
		for (let n = 2; names.has(own); n++)
			own = `${name} (${n})`;
		names.add(own);
		return { name: own, blob };
	});
}

let given = null; // what was explained last, for a reply

function explain(files, text, answer) {
	given = { files, text };
	at("problem-list").replaceChildren();
	at("problems").hidden = true;
	if (files.length > FILES_MOST)
		ANSWERS.problem({ message: `These are ${files.length} files. The first ${FILES_MOST} are read.` });
	at("doing").textContent = text ? "Reading the pasted text" : `Reading ${files.length === 1 ? files[0].name : files.length + " files"}`;
	at("progress").removeAttribute("value");
	document.body.dataset.state = "working";
	show("work");
	worker.postMessage({ type: "explain", files: withOwnNames(files.slice(0, FILES_MOST)), text, answer });
}

async function takeDropped(transfer) {
	// Chromium does not let a page that was opened from a disk read through entries: files are taken as they are, folders by their handles.
	const given = [...transfer.items].filter(item => item.kind === "file")
		.map(item => ({ entry: item.webkitGetAsEntry(), blob: item.getAsFile(), handle: item.getAsFileSystemHandle?.() }));
	const text = transfer.getData("text/plain");
	const files = [];
	for (const { entry, blob, handle } of given)
		for await (const file of !entry?.isDirectory ? [{ name: blob.name, blob }] : handle ? filesBelow(await handle, entry.name) : filesOf(entry))
			if (files.push(file) > FILES_MOST)
				break;
	if (files.length || text)
		explain(files, files.length ? "" : text);
}

function takeChosen(input) {
	const files = [...input.files].map(blob => ({ name: blob.webkitRelativePath || blob.name, blob }));
	input.value = "";
	if (files.length)
		explain(files, "");
}

// --- the answer ---

/** A button for each reply; it explains the same again, with the reply. */
function ask(question) {
	at("ask").hidden = !question;
	at("ask-text").textContent = question?.ask ?? "";
	at("ask-replies").replaceChildren(...(question?.replies ?? []).map(({ reply, answer }) => {
		const button = document.createElement("button");
		button.type = "button";
		button.textContent = reply;
		button.onclick = () => explain(given.files, given.text, answer);
		return button;
	}));
}

function explained({ sources, html, question, milliseconds, memory }) {
	document.body.dataset.milliseconds = Math.round(milliseconds);
	document.body.dataset.memory = memory;
	document.body.dataset.state = "explained";
	if (!sources) {
		show("give");
		return;
	}
	show("answer");
	ask(question);
	at("report").srcdoc = new TextDecoder().decode(html);
	at("again").focus();
}

function failed({ message }) {
	ANSWERS.problem({ message });
	document.body.dataset.state = "failed";
	show("give");
	worker.terminate();
	startWorker();
}

function save(kind, bytes) {
	const [name, type] = SAVED[kind];
	const link = document.createElement("a");
	link.href = URL.createObjectURL(new Blob([bytes], { type }));
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// --- the beginning ---

function tellAbsent() {
	for (const { what, why, instead } of JSON.parse(at("absent-data").textContent)) {
		const term = document.createElement("dt"), description = document.createElement("dd");
		term.textContent = what;
		description.textContent = `${why} ${instead}`;
		at("absent-list").append(term, description);
	}
}

function listen() {
	at("choose-files").onclick = () => at("files").click();
	at("choose-folder").onclick = () => at("folder").click();
	at("files").onchange = event => takeChosen(event.target);
	at("folder").onchange = event => takeChosen(event.target);
	at("form").onsubmit = event => {
		event.preventDefault();
		if (at("paste").value.trim())
			explain([], at("paste").value);
		else
			at("paste").focus();
	};
	at("stop").onclick = () => {
		worker.terminate();
		startWorker();
		show("give");
	};
	at("again").onclick = () => {
		at("report").removeAttribute("srcdoc");
		at("problems").hidden = true;
		show("give");
		at("paste").focus();
	};
	for (const button of document.querySelectorAll("[data-save]"))
		button.onclick = () => worker.postMessage({ type: "report", kind: button.dataset.save, redact: at("redact").checked });
	document.ondragover = event => {
		event.preventDefault();
		at("drop").classList.add("over");
	};
	document.ondragleave = () => at("drop").classList.remove("over");
	document.ondrop = event => {
		event.preventDefault();
		at("drop").classList.remove("over");
		takeDropped(event.dataTransfer).catch(error => failed({ message: String(error) }));
	};
}

tellAbsent();
unpackModule().then(bytes => {
	moduleBytes = bytes;
	startWorker();
	listen();
}).catch(error => ANSWERS.problem({ message: `This browser cannot run the page: ${error}` }));
