// The module's surroundings: the files that it may read, and children. Both the page's worker and web/run.mjs use it.
"use strict";

const KIND = { nothing: 0, file: 1, directory: 2 };
const END = { good: 0, crashed: 1, memory: 2 };
const BLOCK = 4 << 20; // of a file that is read, and of what a child wrote
const KEPT_MOST = 4 * 2 ** 30; // bytes that a child may write
const WASI_SPIPE = 70, ENOSYS = 52;

/** The module ends, by exit(). */
class ModuleExit extends Error {
	constructor(status) {
		super("exit " + status);
		this.status = status;
	}
}

/** Bytes that are read with a block ahead. @source: size, and read(offset, size); or readInto(offset, to), where that needs no block. */
class BlockReader {
	constructor(source) {
		this.source = source;
		this.size = source.size;
		// A window reaches a little into the block before it: the last two are kept.
		this.blocks = [];
	}

	blockAt(offset) {
		const from = Math.floor(offset / BLOCK) * BLOCK;
		let block = this.blocks.find(one => one.from === from);
		if (!block) {
			block = { from, bytes: this.source.read(from, Math.min(BLOCK, this.size - from)) };
			this.blocks = [block, ...this.blocks.slice(0, 1)];
		}
		return block;
	}

	read(offset, to) {
		if (this.source.readInto)
			return this.source.readInto(offset, to);
		let n = 0;
		while (n < to.length && offset + n < this.size) {
			const { from, bytes } = this.blockAt(offset + n), at = offset + n - from;
			if (at >= bytes.length)
				break; // it was cut since
			const part = bytes.subarray(at, at + to.length - n);
			to.set(part, n);
			n += part.length;
		}
		return n;
	}
}

/** What a child writes, in blocks that @keep stores outside of the module: keep(bytes) gives a source. */
class Spool {
	constructor(keep) {
		this.keep = keep;
		this.blocks = [];
		this.last = new Uint8Array(BLOCK);
		this.used = 0;
		this.at = 0;
		this.reader = null;
	}

	write(bytes) {
		if (this.blocks.length * BLOCK + this.used + bytes.length > KEPT_MOST)
			throw new RangeError("a child wrote too much");
		while (bytes.length) {
			const part = bytes.subarray(0, BLOCK - this.used);
			this.last.set(part, this.used);
			this.used += part.length;
			bytes = bytes.subarray(part.length);
			if (this.used === BLOCK) {
				this.blocks.push(this.keep(this.last));
				this.last = new Uint8Array(BLOCK);
				this.used = 0;
			}
		}
	}

	take(to) {
		const whole = this.blocks.length * BLOCK;
		this.reader ??= new BlockReader({
			size: whole + this.used,
			read: (offset, n) => offset < whole ? this.blocks[offset / BLOCK].read(0, n) : this.last.subarray(0, this.used),
		});
		const n = this.reader.read(this.at, to);
		this.at += n;
		return n;
	}
}

/** The files that were given, by name, and the directories that their names make. */
class Files {
	constructor(files) {
		this.files = new Map();
		this.directories = new Map([[".", new Set()]]);
		for (const [name, source] of files) {
			const parts = Files.plain(name).split("/");
			this.files.set(parts.join("/"), source);
			for (let n = parts.length - 1; n >= 0; n--) {
				const directory = parts.slice(0, n).join("/") || (name.startsWith("/") ? "/" : ".");
				const names = this.directories.get(directory) ?? new Set();
				this.directories.set(directory, names.add(parts[n]));
			}
		}
	}

	static plain(path) {
		return path.replace(/\/+/g, "/").replace(/(^|\/)(\.\/)+/g, "$1").replace(/(.)\/\.?$/, "$1");
	}

	find(path) {
		const plain = Files.plain(path);
		return { file: this.files.get(plain), names: this.directories.get(plain) };
	}
}

/** An instance of the module, which explains once. @host: keep(bytes), problem(message), and optionally read(bytes). */
class Unhang {
	constructor(module, host) {
		this.module = module;
		this.host = host;
		this.given = new Files([]);
		this.descriptors = [null, null, null]; // standard input and outputs are not files
		this.main = this.instance();
		this.main._initialize();
		this.page = this.main.page_new();
	}

	instance() {
		let exports = null;
		const bytes = (at, n) => new Uint8Array(exports.memory.buffer, at, n);
		const text = (at, n) => new TextDecoder().decode(bytes(at, n));
		const view = () => new DataView(exports.memory.buffer);
		const wordsOf = (...places) => {
			places.forEach(at => view().setUint32(at, 0, true));
			return 0;
		};
		const page = {
			problem: (at, n) => this.host.problem(text(at, n)),
			open: (at, n, fd, size) => this.open(text(at, n), value => view().setInt32(fd, value, true), value => view().setFloat64(size, value, true)),
			close: fd => {
				if (fd > 2)
					this.descriptors[fd] = undefined;
			},
			read: (fd, offset, to, n) => this.read(fd, offset, bytes(to, n)),
			name: (fd, to, n) => this.name(fd, bytes(to, n)),
			child: (work, ctx, fd) => {
				const [end, spool] = this.child(exports, work, ctx);
				view().setInt32(fd, spool, true);
				return end;
			},
			write: (fd, at, n) => this.descriptors[fd]?.write(bytes(at, n)),
			take: (fd, to, n) => this.descriptors[fd].take(bytes(to, n)),
		};
		const system = {
			clock_time_get: (clock, ...rest) => {
				const ms = clock ? performance.now() : Date.now();
				view().setBigUint64(rest.at(-1), BigInt(Math.floor(ms * 1e6)), true);
				return 0;
			},
			environ_sizes_get: (count, size) => wordsOf(count, size),
			environ_get: () => 0,
			proc_exit: status => {
				throw new ModuleExit(status);
			},
			fd_write: (fd, parts, n, written) => this.say(view(), text, parts, n, written),
			fd_read: () => ENOSYS,
			fd_close: () => 0,
			fd_seek: () => WASI_SPIPE,
		};
		// Whatever else C libraries would ask a system for, this one does not have.
		const env = new Proxy({}, { get: () => () => -ENOSYS });
		exports = new WebAssembly.Instance(this.module, { page, wasi_snapshot_preview1: system, env }).exports;
		return exports;
	}

	/** What is written to standard error, a line before the end. */
	say(view, text, parts, n, written) {
		let total = 0;
		for (let i = 0; i < n; i++) {
			const size = view.getUint32(parts + 8 * i + 4, true);
			const line = text(view.getUint32(parts + 8 * i, true), size).trim();
			if (line)
				this.host.problem(line);
			total += size;
		}
		view.setUint32(written, total, true);
		return 0;
	}

	descriptor(what) {
		return this.descriptors.push(what) - 1;
	}

	open(path, setDescriptor, setSize) {
		const { file, names } = this.given.find(path);
		if (file) {
			setDescriptor(this.descriptor({ reader: new BlockReader(file), at: 0 }));
			setSize(file.size);
			return KIND.file;
		}
		if (!names)
			return KIND.nothing;
		setDescriptor(this.descriptor({ names: [...names], at: 0 }));
		setSize(0);
		return KIND.directory;
	}

	read(fd, offset, to) {
		const file = this.descriptors[fd];
		if (!file?.reader)
			return -1;
		try {
			const n = file.reader.read(offset < 0 ? file.at : offset, to);
			if (offset < 0)
				file.at += n;
			this.host.read?.(n);
			return n;
		} catch {
			return -1; // it was changed or removed since it was given
		}
	}

	name(fd, to) {
		const directory = this.descriptors[fd];
		while (directory?.names && directory.at < directory.names.length) {
			const name = new TextEncoder().encode(directory.names[directory.at++]);
			if (name.length && name.length <= to.length) {
				to.set(name);
				return name.length;
			}
		}
		return 0;
	}

	/** As fork() would: the copy has the parent's memory and stack as they are, and runs to its end. */
	child(parent, work, ctx) {
		const fd = this.descriptor(new Spool(this.host.keep));
		try {
			const child = this.instance();
			const missing = parent.memory.buffer.byteLength - child.memory.buffer.byteLength;
			if (missing > 0)
				child.memory.grow(missing / 65536);
			new Uint8Array(child.memory.buffer).set(new Uint8Array(parent.memory.buffer));
			child.stackRestore(parent.stackSave());
			child.run_child(work, fd, ctx);
			return [END.good, fd];
		} catch (error) {
			const memory = error instanceof ModuleExit ? error.status === 2 : error instanceof RangeError && !/stack/i.test(error.message);
			return [error instanceof ModuleExit && !error.status ? END.good : memory ? END.memory : END.crashed, fd];
		}
	}

	/** Calls @use with places of texts or bytes in the module's memory. */
	with(values, use) {
		const places = values.map(value => {
			const bytes = typeof value === "string" ? new TextEncoder().encode(value + "\0") : value;
			const at = this.main.page_allocate(bytes.length || 1);
			if (!at)
				throw new RangeError("out of memory");
			new Uint8Array(this.main.memory.buffer).set(bytes, at);
			return at;
		});
		use(...places);
		places.forEach(at => this.main.page_release(at));
	}

	/** The files that it may read, as pairs of a name and a source. */
	give(files) {
		this.given = new Files(files);
	}

	addPath(path) {
		this.with([path], at => this.main.page_add_path(this.page, at));
	}

	addBytes(name, bytes) {
		this.with([name, bytes], (at, from) => this.main.page_add_bytes(this.page, at, from, bytes.length));
	}

	/** The reply to the question that an earlier report ended with: `one-game=yes`; before end(). */
	answer(text) {
		this.with([text], at => this.main.page_answer(this.page, at));
	}

	end() {
		this.main.page_end(this.page);
	}

	/** @kind: one of REPORT. @redact: of HTML and Markdown, with names of people and machines replaced. */
	report(kind, redact = false) {
		const at = this.main.page_report(this.page, kind, redact);
		return new Uint8Array(this.main.memory.buffer.slice(at, at + this.main.page_report_length(this.page)));
	}

	get memory() {
		return this.main.memory.buffer.byteLength;
	}
}

// As page_report() in entry.c numbers them.
const REPORT = { json: 0, text: 1, all: 2, html: 3, markdown: 4 };
