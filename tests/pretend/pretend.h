// Control of the pretend driver (driver.cpp), of the pretend cuBLASLt (cublaslt.cpp) and cuFFT (cufft.cpp): for tests, in any language, by name.
//
// Settings, also in the environment (INGOT_PRETEND="sm=80,memory=1000000"):
//   gpus             how many there are (1). 0: cuInit finds none
//   sm               their compute capability, 90 for 9.0
//   driver           CUDA's version as the driver says it, 13000 for 13.0. Newer code is refused, as that for other GPUs is
//   memory           bytes of each GPU
//   fail_allocation  the k-th allocation from now on fails (device memory, or the host's that a GPU writes); 0: none does
//   algorithms       how many the pretend cuBLASLt names for a product (1); `fastest`, counted from 0, takes half the time of the others, and
//                    `refused_algorithm` (-1: none) is refused when it is used
//   cublaslt         its version (130000)
//   shut_down        1: the process ends, and no context can be made current any more (error 4)
//   launch_time      nanoseconds of each kernel (1000); those of gemm_tiles' tile `fast_tile` (-1: none) take half of it
//   fail_call        the k-th call that makes, copies, starts or waits for something fails with error 719; 0: none does
// What has happened:
//   allocations, frees, live_bytes   of device memory; peak_bytes: the most that was live since it was set
//   pinned_copies    copies from memory of the host that was taken here, also those that are recorded
//   refused          bytes of the last allocation that failed, where the last one did
//   live             everything that was made and not given back: memory, streams, events, modules, recordings, contexts
//   host_memory      of these, memory of the host
//   calls            those that fail_call counts
//   clock            nanoseconds that kernels took, one after another
//   launches, replays                kernels started one by one, recordings started
//   mistakes         what a driver need not survive: use of what is gone, copies past the end of memory
#pragma once

extern "C" {
void pretend_set(const char* name, long long value);
long long pretend_get(const char* name);
// One line for each module, kernel that was looked up, launch and mistake so far; valid until the next call. INGOT_PRETEND_EVENTS names a file
// that gets the same lines.
const char* pretend_events();
void pretend_forget_events();
// A kernel in this stream: that many nanoseconds pass, or will when what is recorded there is started. `line`: of pretend_events.
void pretend_work(void* stream, long long nanoseconds, const char* line);
// Counts a call of another library, and says whether it is the one to fail (fail_call).
int pretend_call_fails();
// Of the pretend cuFFT: plans that are alive.
long long pretend_transforms_live();
// Of the pretend cuBLASLt: handles that are alive (live), products started, the algorithm of the last one (algorithm).
long long pretend_products_get(const char* name);
}
