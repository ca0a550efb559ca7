// What differs between the generations of GPUs, for the kernels that are made from one source: tools/assemble-kernels.

.set .Lgeneration, .amdgcn.gfx_generation_number
.set .Lminor, .amdgcn.gfx_generation_minor
.set .Lstepping, .amdgcn.gfx_generation_stepping
.set .Lgfx94x, .Lgeneration == 9 && .Lminor >= 4

// An instruction with its operands, past the caches.
.macro LOAD instruction:vararg
.if .Lgeneration >= 12
	\instruction scope:SCOPE_SYS
.elseif .Lgeneration == 10
	\instruction glc dlc
.elseif .Lgfx94x
	\instruction sc0 sc1
.else
	\instruction glc
.endif
.endm

.macro STORE instruction:vararg
.if .Lgeneration >= 12
	\instruction scope:SCOPE_SYS
.elseif .Lgfx94x
	\instruction sc0 sc1
.else
	\instruction
.endif
.endm

.macro WAIT_FOR_LOADS
.if .Lgeneration >= 12
	s_wait_loadcnt 0
.else
	s_waitcnt vmcnt(0)
.endif
.endm

.macro WAIT_FOR_STORES
.if .Lgeneration >= 12
	s_wait_storecnt 0
.elseif .Lgeneration >= 10
	s_waitcnt_vscnt null, 0
.else
	s_waitcnt vmcnt(0)
.endif
.endm

.macro WAIT_FOR_SCALARS
.if .Lgeneration >= 12
	s_wait_kmcnt 0
.else
	s_waitcnt lgkmcnt(0)
.endif
.endm

// What a vector instruction has written to a scalar register: gfx12 does not wait by itself.
.macro WAIT_FOR_VECTORS
.if .Lgeneration >= 12
	s_wait_alu 0
.endif
.endm
