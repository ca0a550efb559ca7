// RCCL as one process with all GPUs: starts it, reduces once among them, and says what each step answers. For tests/rccl.py.
#include <hip/hip_runtime.h>
#include <stdio.h>

// What is used of rccl.h, whose package is large.
typedef struct ncclComm *ncclComm_t;
extern "C" {
int ncclGetVersion(int *version);
int ncclCommInitAll(ncclComm_t *comms, int n, const int *devices);
int ncclCommCount(ncclComm_t comm, int *count);
int ncclCommDestroy(ncclComm_t comm);
int ncclCommRegister(ncclComm_t comm, void *buffer, size_t size, void **handle);
int ncclCommDeregister(ncclComm_t comm, void *handle);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation, ncclComm_t comm, hipStream_t stream);
}

enum { MOST = 16, FLOATS = 1 << 16, FLOAT32 = 7, SUM = 0 };

int main(void)
{
	static ncclComm_t comms[MOST];
	static hipStream_t streams[MOST];
	static float *from[MOST], *to[MOST];
	int version = 0, gpus = 0, count = 0, answer;
	ncclGetVersion(&version);
	if (hipGetDeviceCount(&gpus) || gpus > MOST)
		return 1;
	printf("RCCL %d GPUs %d\n", version, gpus);
	fflush(stdout);
	answer = ncclCommInitAll(comms, gpus, NULL);
	if (!answer)
		ncclCommCount(comms[0], &count);
	printf("init %d ranks %d\n", answer, count);
	fflush(stdout);
	if (answer)
		return 1;
	for (int i = 0; i < gpus; i++) {
		if (hipSetDevice(i) || hipStreamCreate(&streams[i]) || hipMalloc(&from[i], FLOATS * sizeof(float)) || hipMalloc(&to[i], FLOATS * sizeof(float)))
			return 1;
	}
	static void *handles[MOST][2];
	for (int i = 0; i < gpus; i++)
		printf("register %d %d\n", ncclCommRegister(comms[i], from[i], FLOATS * sizeof(float), &handles[i][0]),
		       ncclCommRegister(comms[i], to[i], FLOATS * sizeof(float), &handles[i][1]));
	fflush(stdout);
	ncclGroupStart();
	for (int i = 0; i < gpus; i++)
		ncclAllReduce(from[i], to[i], FLOATS, FLOAT32, SUM, comms[i], streams[i]);
	printf("reduce %d\n", ncclGroupEnd());
	fflush(stdout);
	for (int i = 0; i < gpus; i++)
		printf("wait %d\n", hipSetDevice(i) || hipStreamSynchronize(streams[i]));
	for (int i = 0; i < gpus; i++)
		for (int k = 0; k < 2; k++)
			if (handles[i][k] && ncclCommDeregister(comms[i], handles[i][k]))
				puts("it stays registered");
	for (int i = 0; i < gpus; i++)
		printf("end %d\n", ncclCommDestroy(comms[i]));
	return 0;
}
