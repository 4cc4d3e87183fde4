/* ingot: compiles PyTorch graphs into plans and runs them. The C interface; this header is its manual.
 *
 * Two libraries implement it. libingot_runtime runs plans (it holds no compiler, no torch, no Python); libingot has all.
 * Functions marked [compiler] are in libingot alone.
 *
 * Every function returns INGOT_OK or a status; on failure out-parameters are untouched and ingot_last_error() describes what happened,
 * until the next call on the same thread. No exception crosses this boundary. `_release` functions accept NULL. Strings given out belong
 * to the library and live as long as the object they came from, unless ingot_string_release is named.
 *
 * Threads: options, models and sessions serve one thread at a time; plans and weights any number. Sessions of one plan run side by side. A state may be handed from
 * thread to thread; a second use at the same time is refused (see states).
 *
 * Running a plan on [2, 16] token ids:
 *
 *   ingot_plan* plan; ingot_weights* weights; ingot_session* session;
 *   ingot_plan_load("model.ingot", &plan);
 *   ingot_weights_create(plan, NULL, &weights);
 *   ingot_session_create(plan, weights, 0, NULL, &session);
 *   int64_t dims[] = {2, 16};
 *   ingot_tensor in = {ids, INGOT_INT64, 2, dims, NULL};
 *   const int64_t* out_dims; int32_t rank;
 *   ingot_session_resolve(session, &in, 1);
 *   ingot_session_output(session, 0, &rank, &out_dims);       // allocate as many float32 as they say
 *   ingot_tensor out = {result, INGOT_FLOAT32, rank, out_dims, NULL};
 *   ingot_session_run_with(session, &in, 1, &out, 1);
 */
#ifndef INGOT_H
#define INGOT_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define INGOT_API
#else
#define INGOT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ingot_status {
  INGOT_OK = 0,
  INGOT_INTERNAL = 1,        /* a bug in ingot */
  INGOT_UNSUPPORTED = 2,     /* the model needs an operator or feature that no engine has */
  INGOT_INVALID_INPUT = 3,   /* a tensor, shape, dtype or range does not fit */
  INGOT_INVALID_OPTION = 4,  /* an unknown option, or a value it cannot take */
  INGOT_FORMAT = 5,          /* a file is damaged, cut off, or not what it should be */
  INGOT_VERSION = 6,         /* a file, a driver or a library is too new or too old, or a plan has no program for the device */
  INGOT_OUT_OF_MEMORY = 7,
  INGOT_DEVICE = 8,          /* a device or one of its libraries is missing or failed */
  INGOT_ACCURACY = 9,
  INGOT_CANCELLED = 10,      /* the progress callback said so */
  INGOT_IO = 11              /* a file cannot be opened, read or written */
} ingot_status;

typedef enum ingot_dtype {   /* the numbers that plans use */
                           INGOT_BOOL = 0,
                           INGOT_UINT8 = 1,
                           INGOT_INT8 = 2,
                           INGOT_INT16 = 3,
                           INGOT_INT32 = 4,
                           INGOT_INT64 = 5,
                           INGOT_FLOAT16 = 6,
                           INGOT_BFLOAT16 = 7,
                           INGOT_FLOAT32 = 8,
                           INGOT_FLOAT64 = 9
} ingot_dtype;

typedef struct ingot_error {
  ingot_status status;
  const char* message;       /* what happened to which value, and why */
  const char* origin;        /* the line of the user's program it comes from, or "" */
  const char* remedy;        /* what to do, or "" */
} ingot_error;

typedef struct ingot_tensor {
  void* data;                /* host memory; or memory of the GPU that the session runs on, which must lie there as the plan reads it (ingot_binding.order) */
  ingot_dtype dtype;
  int32_t rank;
  const int64_t* dims;       /* rank sizes */
  const int64_t* strides;    /* rank strides in elements; NULL = row-major */
} ingot_tensor;

/* An input, output or weight of a plan. */
typedef struct ingot_binding {
  const char* name;
  ingot_dtype dtype;
  int32_t rank;
  const int64_t* dims;       /* at the usual sizes (each dynamic axis at its "opt"; 0 where these do not go together); ingot_plan_describe has the ranges */
  int32_t written;           /* 1: the function writes to this memory (an input that the model changes, a state) */
  const uint8_t* order;      /* rank axes as they lie in memory, from outermost to innermost, e.g. {0, 2, 3, 1} for an image in channels_last; NULL = row-major.
                              * An input or weight that lies so (its strides say it) is read where it is, any other one on the host is copied. dims are not turned. */
} ingot_binding;

typedef struct ingot_options ingot_options;
typedef struct ingot_model ingot_model;
typedef struct ingot_plan ingot_plan;
typedef struct ingot_weights ingot_weights;
typedef struct ingot_session ingot_session;
typedef struct ingot_state ingot_state;

/* ---- the library */

INGOT_API ingot_status ingot_version(int32_t* major, int32_t* minor, int32_t* patch);
/* The last failure of this thread; never NULL, empty when there was none. */
INGOT_API const ingot_error* ingot_last_error(void);
INGOT_API void ingot_string_release(char* text);
/* Where NVRTC, cuBLASLt and others of NVIDIA's libraries are searched for after the system's own places and INGOT_LIBRARY_PATH: folders that
 * hold them, or Python's site-packages. Before the first of them is needed. */
INGOT_API ingot_status ingot_set_library_folders(const char* const* folders, size_t count);
/* Instruction set, threads, version, GPUs, and of the driver and NVIDIA's libraries the path or what to do, as JSON; release the text with ingot_string_release. */
INGOT_API ingot_status ingot_describe_machine(char** json);
/* The limits that speeds are held against, measured for about `seconds` on `threads` threads (0 = all that may be used) as
 * {flops (float32 operations a second), bf16_flops (of bfloat16, summed in float32), bytes_per_second (read)}; takes 256 MiB a thread. Release with ingot_string_release. */
INGOT_API ingot_status ingot_measure_machine(int32_t threads, double seconds, char** json);

/* ---- options */

INGOT_API ingot_status ingot_options_create(ingot_options** out);
/* An option by name, its value as text ("2", "true"). INGOT_INVALID_OPTION names the nearest option. */
INGOT_API ingot_status ingot_options_set(ingot_options* options, const char* name, const char* value);
/* The table of options as JSON: [{name, type, default, kind, meaning}]; release with ingot_string_release. */
INGOT_API ingot_status ingot_options_describe(char** json);
INGOT_API void ingot_options_release(ingot_options* options);

/* ---- models [compiler] */

typedef struct ingot_weight_source {
  const char* name;          /* state-dict name */
  const void* data;          /* first element; must outlive the model and every plan made from it */
  size_t bytes;              /* that may be read from there */
  const int64_t* strides;    /* ingot_plan_with_weights: one for each axis, in elements; NULL = row-major. ingot_model_from_memory: NULL, the JSON has them */
} ingot_weight_source;

/* A torch.export archive (.pt2); mapped, not copied. */
INGOT_API ingot_status ingot_model_open(const char* path, ingot_model** out);
/* The archive's graph JSON and a table of weights. The JSON is not kept. It may name kernels of the user's, which an archive may not: take it from nobody else. */
INGOT_API ingot_status ingot_model_from_memory(const char* json, size_t bytes, const ingot_weight_source* weights, size_t count, ingot_model** out);
/* Range of a dynamic axis of an input and its name: axes of one name are one size. `name` may be "". */
INGOT_API ingot_status ingot_model_set_dim(ingot_model* model, const char* input, int64_t axis, int64_t min, int64_t opt, int64_t max, const char* name);
/* Text that the plan carries for its caller (Python keeps its pytree specs there). */
INGOT_API ingot_status ingot_model_set_signature(ingot_model* model, const char* text);
/* {inputs: [{name, dtype, dims, ranges}], outputs: [...], weights: n, missing: [...]}; ranges has null for each axis, or {min, max, factor, offset} where
   its size varies and is factor * n + offset. Release with ingot_string_release. */
INGOT_API ingot_status ingot_model_describe(const ingot_model* model, char** json);
INGOT_API void ingot_model_release(ingot_model* model);

/* Called with the stage under way and the fraction done; a value other than 0 cancels. */
typedef int (*ingot_progress)(const char* stage, double fraction, void* user);
INGOT_API ingot_status ingot_compile(const ingot_model* model, const ingot_options* options, ingot_progress progress, void* user, ingot_plan** out);
/* What ingot_compile would make of the model, without building it, as JSON: {operators, in_engine, whole, text,
 * segments: [{operators, gain_us, cost_us, inputs: [names of values, {input: name} or {state: name} for the model's own], outputs: [names],
 *   orders (per output: the axes as they lie in memory, when it is given permuted so; else empty)}],
 * nodes: [{name, target, segment (null: runs in torch), reason, origin, and with option autocast precision ("float16", "float32", "" without such numbers) and
 *   precision_reason}], autocast (with it): {type, casts (of values), unused: [patterns that name nothing]},
 * missing: [{target, count, reason, origin, segments_with, in_engine_with (if this operator were there)}]}.
 * Release with ingot_string_release. */
INGOT_API ingot_status ingot_explain(const ingot_model* model, const ingot_options* options, char** json);
/* The operator table as JSON: [{name, schema, family}]; release with ingot_string_release. */
INGOT_API ingot_status ingot_ops_describe(char** json);

/* ---- plans */

/* How far a file is trusted. Whatever it is, every number of a plan is checked before it is used; steps for the CPU are no machine code. */
typedef enum ingot_trust {
  INGOT_TRUST_AUTO = 0,      /* device code is run if this user's ingot compiled it on this machine; else it is compiled anew from the plan's graph (libingot), or
                              * INGOT_VERSION (libingot_runtime, which has no compiler) */
  INGOT_TRUST_DATA = 1,      /* nothing of the file is executed, and the checksums of all its bytes are compared: device code is always compiled anew */
  INGOT_TRUST_CODE = 2       /* its device code is run as it is: for files of whom you trust as much as a program of theirs */
} ingot_trust;

/* Maps the file and checks its metadata; weights are not read. INGOT_TRUST_AUTO. A file that is overwritten in its place or cut off while it is mapped changes
 * the weights or ends the process (SIGBUS): replace files by renaming, as all of ingot does, or use ingot_plan_load_with(.., map = 0, ..). */
INGOT_API ingot_status ingot_plan_load(const char* path, ingot_plan** out);
/* The same with a level of trust; map = 0: the file is read into memory whole, and the checksums of all its bytes are compared. */
INGOT_API ingot_status ingot_plan_load_with(const char* path, ingot_trust trust, int map, ingot_plan** out);
/* The bytes must stay as they are until the plan and everything made from it are released. INGOT_TRUST_AUTO. */
INGOT_API ingot_status ingot_plan_load_memory(const void* data, size_t bytes, ingot_plan** out);
INGOT_API ingot_status ingot_plan_load_memory_with(const void* data, size_t bytes, ingot_trust trust, ingot_plan** out);
/* Atomic: the old file or the new one, never half. Without the values of the weights where the plan was compiled with the option
 * weights="strip". */
INGOT_API ingot_status ingot_plan_save(const ingot_plan* plan, const char* path);
/* The bytes of such a file. values = 0: without the values of the weights (their "source" is "host" in
 * ingot_plan_describe), for a program that keeps them itself: whoever loads such a plan gives each with ingot_weights_set, then calls
 * ingot_weights_commit; until then its sessions refuse to run. First values of states may be left out where memory is bound to the
 * states instead. Release with ingot_bytes_release. */
INGOT_API ingot_status ingot_plan_write(const ingot_plan* plan, int values, uint8_t** bytes, size_t* count);
INGOT_API void ingot_bytes_release(uint8_t* bytes);
/* A plan of one function of another, with the weights and the share of prepare that this function needs; it is function 0 there. */
INGOT_API ingot_status ingot_plan_part(const ingot_plan* plan, uint32_t function, ingot_plan** out);
/* The same plan with other values for some of its weights, by name: borrowed as those of ingot_model_from_memory are, or copied where they lie otherwise
 * than the weight does (ingot_binding.order). The rest stays the plan's; a plan without values takes them all. */
INGOT_API ingot_status ingot_plan_with_weights(const ingot_plan* plan, const ingot_weight_source* values, size_t count, ingot_plan** out);
/* A file of a LoRA adapter (safetensors, as PEFT, diffusers or kohya's scripts write it), or the folder that PEFT wrote; what it adds is multiplied by `scale`. */
typedef struct ingot_adapter {
  const char* path;
  double scale;
} ingot_adapter;
/* [compiler] The same plan with other values for its weights, from `count` files of safetensors, by state-dict name; 0 files: its own values. To these it adds what
 * the adapters say, summed in float32 and rounded once. INGOT_INVALID_INPUT lists names that the plan has not, other dtypes and shapes, and weights that no file has;
 * with allow_missing = 1 those keep the plan's values. The result embeds all values, whatever the plan did. The files are mapped: the plan keeps them. */
INGOT_API ingot_status ingot_plan_refit(const ingot_plan* plan, const char* const* weights, size_t count, const ingot_adapter* adapters, size_t adapter_count, int allow_missing,
                                        ingot_plan** out);
/* [compiler] Which tensors of an adapter change which of these weights, by their names alone, as JSON: [{weight, down, up (numbers of tensors), alpha_tensor (a number, or
 * null), alpha (by the configuration, or null), by_root, transposed}]. `config`: the text of its adapter_config.json, or NULL. The weight gets alpha / rank * up @ down,
 * where down has `rank` rows and alpha is the rank where nothing says it; by_root: divided by the root of the rank. Release with ingot_string_release. */
INGOT_API ingot_status ingot_adapter_describe(const char* const* tensors, size_t count, const char* config, const char* const* weights, size_t weight_count, char** json);
/* 32 bytes; zeros for a plan that was never written or read. */
INGOT_API ingot_status ingot_plan_hash(const ingot_plan* plan, uint8_t* hash);
/* Checks the bytes of the weights too (ingot_plan_load checks metadata only). */
INGOT_API ingot_status ingot_plan_verify(const ingot_plan* plan);
/* How many inputs and outputs a function of the plan has (0 = forward), and what each is: what they point at lives as long as the plan. */
INGOT_API ingot_status ingot_plan_count(const ingot_plan* plan, uint32_t function, size_t* inputs, size_t* outputs);
INGOT_API ingot_status ingot_plan_input(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out);
INGOT_API ingot_status ingot_plan_output(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out);
/* Whether the sizes of an output are read from data while the function runs (nonzero, item): see ingot_session_run_with. */
INGOT_API ingot_status ingot_plan_output_is_open(const ingot_plan* plan, uint32_t function, size_t index, int* open);
/* The states of a function: buffers that it writes, such as running means and caches; their first values are weights of the plan. Functions that write the same
 * buffer have a state of the same name. */
INGOT_API ingot_status ingot_plan_state_count(const ingot_plan* plan, uint32_t function, size_t* states);
INGOT_API ingot_status ingot_plan_state(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out);
/* How many weights the plan has, and what each is (by state-dict name): what is pointed at lives as long as the plan. `written`: it is
 * nothing but the first value of a state. */
INGOT_API ingot_status ingot_plan_weight_count(const ingot_plan* plan, size_t* count);
INGOT_API ingot_status ingot_plan_weight(const ingot_plan* plan, size_t index, ingot_binding* out);
/* The value of a weight where it lies: dense in memory, its axes in its binding's order; NULL where the plan was saved without it. It lives as long as the plan. */
INGOT_API ingot_status ingot_plan_weight_value(const ingot_plan* plan, size_t index, const void** data);
/* Functions, bindings with symbolic dims, sizes, steps, weights, kernels of the user's ("external"), signature, provenance as JSON; release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_describe(const ingot_plan* plan, char** json);
/* The programs of each target as text, for people: buffers, and every step with its operands' layouts; release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_programs(const ingot_plan* plan, char** text);
/* Compiles the plan's graphs once more and says what was decided, as text for people: which values have memory and why, and for every step the offers of the
 * backend, their costs, the one taken (*), and why the others were refused. libingot alone; release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_offers(const ingot_plan* plan, char** text);
/* The canonical graph of a function as text; release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_graph(const ingot_plan* plan, uint32_t function, char** text);
/* [compiler] A graph's text (ingot_plan_graph, or a file of INGOT_DUMP) as a picture: format "svg", or "onnx" for viewers such as Netron (types, sizes and attributes of
 * all nodes, no values of weights). Release with ingot_bytes_release. */
INGOT_API ingot_status ingot_graph_draw(const char* text, const char* format, uint8_t** bytes, size_t* count);
/* [compiler] Runs a function's graph by the reference interpreter: slow, exact. Outputs: row-major, of the resolved dims. */
INGOT_API ingot_status ingot_plan_reference(const ingot_plan* plan, uint32_t function, const ingot_tensor* inputs, size_t input_count, const ingot_tensor* outputs,
                                            size_t output_count);
/* [compiler] Runs prepare and a function of the plan step by step on a device (options: device, threads), and compares what each step writes with the reference
 * interpreter, each step by itself: {target, steps: [{function, step, kernel, label, origin, dtype (null: not compared), largest, absolute, roundings,
 * bound, over}], first: the first step over its bound, or null}. `bound`: in roundings of the largest element, 0 = the usual 1000 of float32; half types have
 * their own rounding besides (docs/verify.md). stop = 1: no further than the first step over its bound. Inputs are memory of the host. Release with
 * ingot_string_release. */
INGOT_API ingot_status ingot_plan_verify_steps(const ingot_plan* plan, uint32_t function, const ingot_options* options, const ingot_tensor* inputs, size_t input_count,
                                               double bound, int stop, char** json);
/* Counted: weights and sessions keep their plan alive. */
INGOT_API void ingot_plan_release(ingot_plan* plan);

/* ---- weights */

/* Puts the weights where they are read and runs the plan's prepare function (packing, merging), unless the values are still to be given (see
 * ingot_plan_write). Options: threads, device ("cpu", "cuda", "cuda:1"). A GPU that the plan has no program for gets one compiled from the plan's graph
 * ([compiler], NVRTC is needed; compiled code is cached); libingot_runtime alone gives INGOT_VERSION. */
INGOT_API ingot_status ingot_weights_create(const ingot_plan* plan, const ingot_options* options, ingot_weights** out);
/* Another value for a weight, of the same dtype and shape; `strides`: one for each axis, in elements, NULL = row-major. copy = 0: the memory must outlive
 * the weights, and may be the GPU's. What lies otherwise than the weight does (ingot_binding.order) is copied before this returns; on a GPU it is refused. */
INGOT_API ingot_status ingot_weights_set(ingot_weights* weights, const char* name, const void* data, size_t bytes, const int64_t* strides, int copy);
/* Prepares what depends on the values set since the last commit and swaps all of them in at once: a run sees every one of them or none. Runs that are under way
 * finish with the old ones, whose memory goes with the last of them; what has not changed is shared. With nothing set since, everything is prepared anew: values in
 * borrowed memory may have been changed there. A commit that fails leaves the weights as they were, and what was set waits for the next one. */
INGOT_API ingot_status ingot_weights_commit(ingot_weights* weights);
/* Other weights of the same plan beside these, with the values of their last commit: another version, or an adapter. Both share all that is equal, in whichever a value
 * is set: a fork costs the memory of its own values and of what a commit prepares of them. What was set here and not committed is not the fork's. A commit with
 * nothing set prepares all anew, so nothing of it is shared any more. */
INGOT_API ingot_status ingot_weights_fork(const ingot_weights* weights, ingot_weights** out);
/* Where they are, and with them their sessions: the number of a GPU, or -1 for the host. */
INGOT_API ingot_status ingot_weights_device(const ingot_weights* weights, int32_t* gpu);
/* Bytes of a GPU's memory. All are 0 where weights are on the host. */
typedef struct ingot_memory {
  uint64_t resident;         /* of weights that are on the device, also those that the caller holds there */
  uint64_t streamed;         /* of weights that are in page-locked memory of the host, and are copied to the device ahead of the steps that read them */
  uint64_t ring;             /* of the memory they are copied to; each session has its own */
  uint64_t arena;            /* of what a run has between its steps: of weights, what the limit leaves for it; of a session, at the last sizes */
  uint64_t limit;            /* option memory_bytes; 0: none */
  uint64_t least;            /* the least limit that works */
} ingot_memory;
/* What the option memory_bytes says, from the next run of each session on: the weights that stay on the device and one session's run take no more than this many bytes of it, and
 * the rest is streamed. 0: no limit, -1: nine tenths of what is free. Memory goes when no session has the old places. Which weights stay follows from the plan and the limit
 * alone; results are the same, bit by bit. INGOT_OUT_OF_MEMORY names the least limit that works, and nothing changes; INGOT_INVALID_OPTION on the CPU, but for 0 and -1.
 * A run whose arena is larger than was known streams more weights from then on. What a commit makes anew is on the device beside what it replaces until no session reads the old
 * values. Values that were borrowed there (ingot_weights_set) stay the caller's: one that is streamed is copied to the host, and what the caller frees of the device is free. */
INGOT_API ingot_status ingot_weights_set_memory(ingot_weights* weights, int64_t memory_bytes);
INGOT_API ingot_status ingot_weights_memory(const ingot_weights* weights, ingot_memory* out);
INGOT_API void ingot_weights_release(ingot_weights* weights);

/* ---- sessions */

/* `function`: index in the plan, 0 = forward. It runs on the device of its weights. Options: threads. */
INGOT_API ingot_status ingot_session_create(const ingot_plan* plan, ingot_weights* weights, uint32_t function, const ingot_options* options, ingot_session** out);
/* Sizes of the outputs for inputs of these shapes (data may be NULL); see ingot_session_output. Of an output whose sizes the model reads from data while it
 * runs (nonzero, item): the most they can be, or -1 for each where that is not known. */
INGOT_API ingot_status ingot_session_resolve(ingot_session* session, const ingot_tensor* inputs, size_t count);
/* Rank and dims of an output after resolve; after a run, those that it had. They live until the next resolve or run. */
INGOT_API ingot_status ingot_session_output(const ingot_session* session, size_t index, int32_t* rank, const int64_t** dims);
/* Runs on the calling thread and the session's workers; returns when the outputs are written. Inputs in the order of the plan's
 * bindings, with any strides (see ingot_binding.order; those that the plan writes are changed in place); outputs row-major and of the resolved dims. Allocates nothing after the first call at a size.
 * An output whose sizes are read from data: memory of the resolved dims, of which the result takes the first elements (ingot_session_output says how many);
 * or data NULL where ingot_session_set_output_memory gives it. */
INGOT_API ingot_status ingot_session_run_with(ingot_session* session, const ingot_tensor* inputs, size_t input_count, const ingot_tensor* outputs, size_t output_count);
/* Gives memory for an output whose sizes are read from data, once they are known: `dims` as many as its rank. NULL: there is none, and the run ends with
 * INGOT_OUT_OF_MEMORY. On a GPU it is memory of that GPU. Called by ingot_session_run_with, in its thread. */
typedef void* (*ingot_output_memory)(void* user, size_t output, const int64_t* dims, int32_t rank);
/* NULL: as at first, memory is given with each run. */
INGOT_API ingot_status ingot_session_set_output_memory(ingot_session* session, ingot_output_memory give, void* user);
/* On a GPU, runs are work in the caller's CUDA stream (a CUstream or cudaStream_t; NULL, as at first, is the default one) from now on. A run
 * whose tensors are all on the GPU returns before it is done; what it met (an index out of range) the next run tells, or ingot_session_wait.
 * While the caller records its stream, a run is recorded with it. Ignored on the CPU. */
INGOT_API ingot_status ingot_session_set_stream(ingot_session* session, void* stream);
/* Memory from the caller: `allocate` gives NULL when there is none; on a GPU it gives memory of that GPU, aligned to 256 bytes. */
typedef struct ingot_allocator {
  void* (*allocate)(void* user, size_t bytes);
  void (*release)(void* user, void* memory, size_t bytes);
  void* user;
} ingot_allocator;
/* From now on each run takes its memory (for values between its steps) from there, and gives it back before it returns; on a GPU the session's
 * stream may still be using it then, so whoever gets it next has to come after it in that stream. NULL: memory of the session's own, kept from run to run, as at first. */
INGOT_API ingot_status ingot_session_set_allocator(ingot_session* session, const ingot_allocator* allocator);
/* The weights of runs from now on: a fork of the session's (ingot_weights_fork), or those that they are a fork of, else INGOT_INVALID_INPUT. The session keeps what it
 * resolved, and on a GPU what it recorded for either. Its own state takes first values from them. It keeps them alive. */
INGOT_API ingot_status ingot_session_set_weights(ingot_session* session, ingot_weights* weights);
/* What its weights and its runs take of the device. */
INGOT_API ingot_status ingot_session_memory(const ingot_session* session, ingot_memory* out);
/* Returns when all runs so far are done, with INGOT_INVALID_INPUT when one of them met an index out of range. */
INGOT_API ingot_status ingot_session_wait(ingot_session* session);
/* What runs write is in this state from now on (see states); NULL: in the session's own one, as at first, which takes memory when a run first needs it. It costs
 * nothing but that work on a GPU, which is recorded for the addresses it met lately, is recorded anew for others. The session keeps the state alive.
 * INGOT_INVALID_INPUT when it was made for another plan or device. */
INGOT_API ingot_status ingot_session_set_state(ingot_session* session, ingot_state* state);
/* ingot_state_bind by the number among the function's states, for the state that the session runs with. */
INGOT_API ingot_status ingot_session_bind_state(ingot_session* session, size_t index, const ingot_tensor* memory);
/* Copies one state out of the session (into_session = 0) or into it, row-major; `bytes` must be its size. */
INGOT_API ingot_status ingot_session_state(ingot_session* session, size_t index, void* data, size_t bytes, int into_session);
/* What the session's state holds in memory of its own becomes the weights' values again; bound memory stays as it is. */
INGOT_API ingot_status ingot_session_reset(ingot_session* session);
/* on = 1: runs from now on note the time of each step; on = 0: no more. `json`: NULL, or the last noted run as
 * {steps: [{label, kernel, origin (the user's line), nanoseconds, bytes (read and written), sizes}], call_nanoseconds: of the whole run, as its caller waits,
 * resolutions: how often the session resolved sizes so far}; release with ingot_string_release. */
INGOT_API ingot_status ingot_session_profile(ingot_session* session, int on, char** json);
/* The last run that was noted as a trace for Perfetto or chrome://tracing (JSON): the call on a lane of the CPU, the steps one after another on a lane of the device
 * that ran them. Release with ingot_string_release. */
INGOT_API ingot_status ingot_session_trace(ingot_session* session, char** json);
INGOT_API void ingot_session_release(ingot_session* session);

/* ---- states
 *
 * A state is the memory that a model writes (buffers, caches, counters), apart from the sessions that run the model: one for each sequence, user or conversation,
 * while few sessions serve them all. It has one entry for each buffer that any function of the plan writes; functions share an entry by its name.
 *
 *   ingot_state *a, *b;
 *   ingot_state_create(plan, weights, &a);
 *   ingot_session_set_state(session, a);
 *   ingot_session_run_with(session, ...);                     // writes a
 *   ingot_state_fork(a, &b);                                  // from here on both go their own way
 *
 * It also has an entry for each row-major input that some function writes, by the input's name: so a cache has a length of its own, which an axis of a buffer cannot have in torch.
 * A run whose tensor for that input has no memory (data NULL, the dims of the entry) reads and writes the entry. Such an entry begins with zeros, and takes memory when it is first used.
 *
 * A state is used by one run or call at a time, of any thread; a second one that comes meanwhile gets INGOT_INVALID_INPUT and changes nothing. On a GPU a run with
 * a state comes after all earlier work with it, in whichever stream that was (but while the caller records a stream, the order is the caller's), and the functions
 * below return when what they do is done. A function that fails leaves its states as they were. */

/* Every entry gets memory on the device of the weights and the value that its weight has now. An entry whose value the plan was saved without gets none until it is
 * written or bound, or until the weight has a value. */
INGOT_API ingot_status ingot_state_create(const ingot_plan* plan, ingot_weights* weights, ingot_state** out);
/* The same with sizes for dynamic axes of inputs, by the names that ingot_plan_describe has for them; others have their usual sizes. */
typedef struct ingot_size {
  const char* name;
  int64_t value;
} ingot_size;
INGOT_API ingot_status ingot_state_create_with(const ingot_plan* plan, ingot_weights* weights, const ingot_size* sizes, size_t count, ingot_state** out);
/* Larger sizes: what is in an entry keeps its indices, the rest is zeros, and it lies elsewhere from then on. INGOT_INVALID_INPUT for smaller ones, and for entries in bound memory. */
INGOT_API ingot_status ingot_state_grow(ingot_state* state, const ingot_size* sizes, size_t count);
/* How many entries there are, and what each is. What is pointed at lives as long as the state does not grow. */
INGOT_API ingot_status ingot_state_count(const ingot_state* state, size_t* entries);
INGOT_API ingot_status ingot_state_entry(const ingot_state* state, size_t index, ingot_binding* out);
/* Another state with the same sizes and a copy of every entry, in memory of its own. */
INGOT_API ingot_status ingot_state_fork(ingot_state* state, ingot_state** out);
/* Every entry of `to` gets the value of the same entry of `from`, a state of the same plan on the same device with the same sizes. */
INGOT_API ingot_status ingot_state_copy(ingot_state* to, ingot_state* from);
/* Every entry gets the value that its weight has now, also in memory that is bound. */
INGOT_API ingot_status ingot_state_reset(ingot_state* state);
/* Copies an entry, by its name, to or from `bytes` bytes (its size), row-major, in memory of the host or of the state's device. */
INGOT_API ingot_status ingot_state_read(ingot_state* state, const char* name, void* data, size_t bytes);
INGOT_API ingot_status ingot_state_write(ingot_state* state, const char* name, const void* data, size_t bytes);
/* All entries as a file (safetensors: a name, dtype and shape each, row-major), written atomically. */
INGOT_API ingot_status ingot_state_save(ingot_state* state, const char* path);
/* Every entry gets its value of such a file, which must have been saved from a state with the same entries, in any process or on any device, else INGOT_FORMAT. Nothing
 * else of the file is believed. */
INGOT_API ingot_status ingot_state_load(ingot_state* state, const char* path);
/* An entry lies in the caller's memory from now on, with the values that are there: every run reads and writes it in place. It has the entry's dtype and sizes and any
 * strides (on the state's GPU: none), and must outlive its use. data NULL: in memory of the state's own again, with the value that its weight has then. */
INGOT_API ingot_status ingot_state_bind(ingot_state* state, const char* name, const ingot_tensor* memory);
/* Where an entry lies, to be read and written without a copy while no run uses the state. It lies there until the state is released or memory is bound to the entry;
 * its dims and strides live as long. A state that grows moves its entries. */
INGOT_API ingot_status ingot_state_tensor(ingot_state* state, const char* name, ingot_tensor* out);
/* A session that runs with the state keeps it until it gets another one. */
INGOT_API void ingot_state_release(ingot_state* state);

#ifdef __cplusplus
}
#endif
#endif
