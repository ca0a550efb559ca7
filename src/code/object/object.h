// An AMDGPU code object: an ELF file with kernels for one kind of GPU.
#pragma once

#include "base/arena.h"
#include "base/error.h"

enum code_feature { FEATURE_ANY, FEATURE_OFF, FEATURE_ON, FEATURE_NONE }; // NONE: the part does not have it

/** An argument of a kernel, as its metadata describe it. */
struct code_argument {
	struct str name, type_name, value_kind, address_space, access;
	uint32_t offset, size;
};

struct code_kernel {
	struct str name;              // as in the symbol table, mangled
	uint64_t descriptor, entry;   // their addresses in the object
	uint64_t size;                // of its code; 0 where the symbol table does not say
	uint32_t vgprs, agprs, sgprs; // as the metadata count them
	uint32_t vgprs_allocated;     // by the descriptor
	uint32_t accum_offset;        // first accumulation VGPR; 0 where the part has no such split
	uint32_t lds, scratch, kernarg_size;
	uint32_t vgpr_spills, sgpr_spills;
	uint32_t max_workgroup;
	uint32_t required_workgroup[3]; // 0: none is required
	unsigned wave_size;
	bool dynamic_stack;
	size_t narguments;
	const struct code_argument *arguments;
};

/** A function: a kernel, or one that kernels call. */
struct code_symbol {
	struct str name;
	uint64_t address, size;
	const struct code_kernel *kernel; // NULL: not a kernel
};

struct code_segment {
	uint64_t address, offset, file_size, memory_size;
	uint32_t flags;
};

struct code_object {
	struct str name;      // of the file
	struct str bytes;     // the whole ELF file; not owned
	struct str gfx;       // gfx90a; from the metadata if we do not know the number; may be empty
	struct str target_id; // gfx90a:sramecc+:xnack-
	enum code_feature xnack, sramecc;
	unsigned mach, abi; // abi: EI_ABIVERSION of the header; 2 is code object V4
	size_t nsegments, nkernels, nsymbols;
	const struct code_segment *segments; // PT_LOAD
	const struct code_kernel *kernels;
	const struct code_symbol *symbols; // functions, by address
	uint64_t begin, end;               // of its segments' addresses
};

/** Parses an object. The result lies in @a; its names point into @bytes, which must outlive it. Bad headers give an error that names
 * structure and offset. Other damage (in the metadata, say) is a line in @problems, which may be NULL, and the rest is used. */
struct uh_error *code_object_parse(struct arena *a, struct str name, struct str bytes, struct text *problems,
				   struct code_object **ret);
/** The same without metadata, so that of kernels only their descriptors are known. (Metadata are read only if nothing else names the
 * processor.) */
struct uh_error *code_object_parse_functions(struct arena *a, struct str name, struct str bytes, struct text *problems,
					     struct code_object **ret);
/** The function that @address lies in, or NULL. Padding behind a function is not in it. */
const struct code_symbol *code_object_symbol(const struct code_object *o, uint64_t address);
/** The page that it begins in. The runtime gives that as the address where it was loaded. */
static inline uint64_t code_object_page(const struct code_object *o) { return o->begin & ~4095ull; }
/** The object's bytes from @address on, up to the end of their segment; empty where there are none. */
struct str code_object_at(const struct code_object *o, uint64_t address);
