// The kernels of unhang selftest, for each part from this one source: tools/assemble-kernels.
//
// Arguments of all: an address, a number, and where the host writes when a kernel that spins is to end.

.include "generations.s"

.macro BEGIN name
.text
.globl \name
.p2align 8
.type \name, @function
\name:
.if .Lgeneration >= 11
	s_load_b256 s[4:11], s[0:1], 0x0
.else
	s_load_dwordx8 s[4:11], s[0:1], 0x0
.endif
	v_mov_b32 v0, 0
	WAIT_FOR_SCALARS
	v_mov_b32 v1, s6
.endm

// Stores the number at the address.
.macro PUT
	STORE global_store_dword v0, v1, s[4:5]
	WAIT_FOR_STORES
.endm

.macro END name
	s_endpgm
	// What is fetched ahead must be there.
.rept 64
	s_nop 0
.endr
.size \name, . - \name
.endm

.macro DESCRIBE name, more:vararg
.rodata
.p2align 6
.amdhsa_kernel \name
	.amdhsa_kernarg_size 32
	.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.amdhsa_next_free_vgpr 8
	.amdhsa_next_free_sgpr 16
	\more
.end_amdhsa_kernel
.endm

.macro KERNEL name
.if .Lgeneration >= 10
	DESCRIBE \name, .amdhsa_wavefront_size32 0
.elseif .Lgfx94x || (.Lminor == 0 && .Lstepping == 10)
	DESCRIBE \name, .amdhsa_accum_offset 8
.else
	DESCRIBE \name
.endif
.endm

BEGIN unhang_test_store
	PUT
END unhang_test_store
KERNEL unhang_test_store

// The same with an address that nothing is at.
BEGIN unhang_test_fault
	PUT
END unhang_test_fault
KERNEL unhang_test_fault

// Says that it has begun, then waits for the host. It ends by itself, too: so often it looks, with a pause of some microseconds.
BEGIN unhang_test_spin
	PUT
	s_mov_b32 s7, 2000000
.Lagain:
	LOAD global_load_dword v2, v0, s[8:9]
	WAIT_FOR_LOADS
	v_readfirstlane_b32 s2, v2
	WAIT_FOR_VECTORS
	s_cmp_lg_u32 s2, 0
	s_cbranch_scc1 .Lend
	s_sleep 127
	s_sub_u32 s7, s7, 1
	s_cmp_lg_u32 s7, 0
	s_cbranch_scc1 .Lagain
.Lend:
END unhang_test_spin
KERNEL unhang_test_spin
