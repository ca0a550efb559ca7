// The module without a page, for tests: node run.mjs MODULE [--text] FILE... explains files; node run.mjs MODULE --batch reads lists of files,
// each a line of JSON, and answers each with a line of JSON; node run.mjs MODULE --imports lists what the module wants of others.
import fs from "node:fs";
import readline from "node:readline";
import vm from "node:vm";

const [, self, modulePath, ...rest] = process.argv;
const script = fs.readFileSync(new URL("page/module.js", "file://" + fs.realpathSync(self)), "utf8");
const { Unhang, REPORT } = vm.runInThisContext(script + "\n({ Unhang, REPORT })");
const module = new WebAssembly.Module(fs.readFileSync(modulePath));

function sourceOf(path) {
	const fd = fs.openSync(path);
	return {
		size: fs.fstatSync(fd).size,
		readInto: (offset, to) => fs.readSync(fd, to, 0, to.length, offset),
		close: () => fs.closeSync(fd),
	};
}

function* filesBelow(path) {
	if (!fs.statSync(path).isDirectory())
		yield path;
	else
		for (const name of fs.readdirSync(path))
			yield* filesBelow(path.replace(/\/$/, "") + "/" + name);
}

function explain(paths, kind) {
	const problems = [], files = [];
	for (const path of paths)
		for (const below of filesBelow(path))
			files.push([below, sourceOf(below)]);
	const keep = bytes => ({ size: bytes.length, read: (offset, n) => bytes.subarray(offset, offset + n) });
	const began = performance.now();
	const unhang = new Unhang(module, { keep, problem: message => problems.push(message) });
	unhang.give(files);
	[...paths].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).forEach(path => unhang.addPath(path));
	unhang.end();
	const out = Buffer.from(unhang.report(kind)).toString();
	files.forEach(([, source]) => source.close());
	return { out, problems, milliseconds: performance.now() - began, memory: unhang.memory };
}

if (rest[0] === "--imports") {
	console.log(WebAssembly.Module.imports(module).map(one => `${one.module}.${one.name}`).sort().join("\n"));
} else if (rest[0] === "--batch") {
	for await (const line of readline.createInterface({ input: process.stdin }))
		console.log(JSON.stringify(explain(JSON.parse(line), REPORT.json)));
} else {
	const text = rest[0] === "--text";
	const { out, problems } = explain(text ? rest.slice(1) : rest, text ? REPORT.text : REPORT.json);
	problems.forEach(message => console.error("unhang: " + message));
	process.stdout.write(out);
}
