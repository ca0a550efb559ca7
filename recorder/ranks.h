// Which rank of its job a process is, as launchers tell it in the environment: one list for the recorder and for all who read environments.
//
// The innermost launcher first. Whoever starts mpirun or torchrun in a batch script of Slurm has SLURM_PROCID 0 in every rank, because that is
// the script's own number; so Slurm's comes last. UNHANG_RANK is the user's, and wins.
#pragma once

#define RANK_OF_TORCH "RANK"
#define RANK_OF_OPENMPI "OMPI_COMM_WORLD_RANK"
#define RANK_OF_PMI "PMI_RANK"
#define RANK_OF_SLURM "SLURM_PROCID"
#define RANK_VARIABLES "UNHANG_RANK", RANK_OF_TORCH, RANK_OF_OPENMPI, RANK_OF_PMI, RANK_OF_SLURM
#define RANK_OF_NODE "LOCAL_RANK" // the number on the node, where nothing else is told
/** The same as words of str_among(), for who copies all of them. */
#define RANK_WORDS "UNHANG_RANK|" RANK_OF_TORCH "|" RANK_OF_OPENMPI "|" RANK_OF_PMI "|" RANK_OF_SLURM "|" RANK_OF_NODE
