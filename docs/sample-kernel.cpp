// The kernel of docs/sample-gpucore: rows of a table, gathered by an index that nobody checks.
#define KERNEL extern "C++" __attribute__((amdgpu_kernel, visibility("default")))
#define GLOBAL __attribute__((address_space(1)))

static inline float element(const GLOBAL float *table, int row, int column)
{
	return table[row * 64 + column];
}

KERNEL void gather_rows(const GLOBAL float *table, const GLOBAL int *index, GLOBAL float *out, int rows)
{
	int row = __builtin_amdgcn_workgroup_id_x(), column = __builtin_amdgcn_workitem_id_x();
	if (row < rows)
		out[row * 64 + column] = element(table, index[row], column) * 0.5f;
}
