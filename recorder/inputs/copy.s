// The kernel that copies a piece of a GPU's memory to the host, for each part from this one source: tools/assemble-kernels. Its loads and
// stores pass by what caches may hold for one CU or one XCD alone, as an atomic of system scope does by AMD's memory model.
//
// Arguments: from, to (both a multiple of 16), bytes, bytes that all lanes copy in one turn, and where two words lie that the host shares:
// a wave first writes 1 to the first, and then looks whether the second is still 0. The host, who gives a copy up, writes to the second and
// then looks at the first: where that is 0, no wave will touch the memory, which may be freed.

.include "generations.s"

.text
.globl unhang_copy
.p2align 8
.type unhang_copy, @function
unhang_copy:
	// s[0:1] arguments; the group's number is in s2, or in ttmp9 of gfx12; v0 is the lane's in its group of 256
.if .Lgeneration >= 11
	s_load_b256 s[4:11], s[0:1], 0x0
.else
	s_load_dwordx8 s[4:11], s[0:1], 0x0
.endif
.if .Lgeneration >= 12
	s_lshl_b32 s2, ttmp9, 8
.else
	s_lshl_b32 s2, s2, 8
.endif
	v_or_b32 v0, s2, v0
	v_lshlrev_b32 v0, 4, v0
	v_mov_b32 v1, 0
	v_mov_b32 v2, 1
	WAIT_FOR_SCALARS
	STORE global_store_dword v1, v2, s[10:11]
	WAIT_FOR_STORES
	LOAD global_load_dword v2, v1, s[10:11] offset:4
	WAIT_FOR_LOADS
	v_readfirstlane_b32 s2, v2
	WAIT_FOR_VECTORS
	s_cmp_lg_u32 s2, 0
	s_cbranch_scc1 .Lend
.Lturn:
	v_cmp_gt_u32 vcc, s8, v0
	WAIT_FOR_VECTORS
	s_and_b64 exec, exec, vcc
	s_cbranch_execz .Lend
	LOAD global_load_dwordx4 v[4:7], v0, s[4:5]
	WAIT_FOR_LOADS
	STORE global_store_dwordx4 v0, v[4:7], s[6:7]
.if .Lgeneration >= 10
	v_add_nc_u32 v0, s9, v0
.else
	v_add_u32 v0, s9, v0
.endif
	s_branch .Lturn
.Lend:
	s_endpgm
	// What is fetched ahead must be there.
.rept 64
	s_nop 0
.endr
.size unhang_copy, . - unhang_copy

.macro DESCRIBE more:vararg
.amdhsa_kernel unhang_copy
	.amdhsa_kernarg_size 32
	.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.amdhsa_system_sgpr_workgroup_id_x 1
	.amdhsa_next_free_vgpr 8
	.amdhsa_next_free_sgpr 16
	\more
.end_amdhsa_kernel
.endm

.rodata
.p2align 6
.if .Lgeneration >= 10
	DESCRIBE .amdhsa_wavefront_size32 0
.elseif .Lgfx94x || (.Lminor == 0 && .Lstepping == 10)
	DESCRIBE .amdhsa_accum_offset 8 // gfx90a, too: one file of vector registers
.else
	DESCRIBE
.endif
