// The ways to launch that few programs use, and those that newer versions of HIP brought: each adds 2 to y.
#pragma once

#include <cstdio>
#include <hip/hip_ext.h>

#include "kernels.h"

#define SINCE(major, minor) (HIP_VERSION_MAJOR > (major) || (HIP_VERSION_MAJOR == (major) && HIP_VERSION_MINOR >= (minor)))

struct added {
	float *x, *y, a;
	int n;
};

static void other_launches(added v, const char *path, void (*print)(const char *what, const float *device, size_t n))
{
	const dim3 groups(v.n / 256), group(256);
	void *arguments[] = { &v.x, &v.y, &v.a, &v.n };
	hipStream_t stream;
	CHECK(hipStreamCreate(&stream));
	hipLaunchParams several = {};
	several.func = (void *)saxpy;
	several.gridDim = groups;
	several.blockDim = group;
	several.args = arguments;
	several.stream = stream;
	CHECK(hipLaunchCooperativeKernelMultiDevice(&several, 1, 0));
	CHECK(hipStreamSynchronize(stream));
	print("cooperative on devices", v.y, v.n);
	CHECK(hipExtLaunchMultiKernelMultiDevice(&several, 1, 0));
	CHECK(hipStreamSynchronize(stream));
	print("kernels on devices", v.y, v.n);
	hipGraph_t graph;
	hipGraphNode_t node;
	hipGraphExec_t executable;
	hipKernelNodeParams added_node = {};
	added_node.func = (void *)saxpy;
	added_node.gridDim = groups;
	added_node.blockDim = group;
	added_node.kernelParams = arguments;
	CHECK(hipGraphCreate(&graph, 0));
	CHECK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &added_node));
	CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
	CHECK(hipGraphLaunch(executable, stream));
	CHECK(hipStreamSynchronize(stream));
	print("node of a graph", v.y, v.n);
#if SINCE(5, 5)
	hipModule_t module;
	hipFunction_t function;
	CHECK(hipModuleLoad(&module, path));
	CHECK(hipModuleGetFunction(&function, module, "_Z5saxpyPKfPffi"));
	CHECK(hipModuleLaunchCooperativeKernel(function, groups.x, 1, 1, group.x, 1, 1, 0, stream, arguments));
	CHECK(hipStreamSynchronize(stream));
	print("cooperative of a module", v.y, v.n);
#endif
#if SINCE(7, 0)
	hipLaunchConfig_t configured = {};
	configured.gridDim = groups;
	configured.blockDim = group;
	configured.stream = stream;
	CHECK(hipLaunchKernelExC(&configured, (const void *)saxpy, arguments));
	CHECK(hipStreamSynchronize(stream));
	print("hipLaunchKernelExC", v.y, v.n);
	HIP_LAUNCH_CONFIG driver = {};
	driver.gridDimX = groups.x;
	driver.blockDimX = group.x;
	driver.gridDimY = driver.gridDimZ = driver.blockDimY = driver.blockDimZ = 1;
	driver.hStream = stream;
	CHECK(hipDrvLaunchKernelEx(&driver, function, arguments, nullptr));
	CHECK(hipStreamSynchronize(stream));
	print("hipDrvLaunchKernelEx", v.y, v.n);
#endif
	(void)path;
}
