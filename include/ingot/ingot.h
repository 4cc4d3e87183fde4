/* ingot compiles PyTorch graphs to plans and runs them. This header is the manual of the C interface.
 *
 * Two libraries implement it. libingot_runtime runs plans; it contains no compiler, no torch, no Python. libingot has everything. Functions marked [compiler] are in
 * libingot only.
 *
 * Every function returns INGOT_OK or a status. After a failure, out-parameters are unchanged and ingot_last_error() describes it until the next call on the same
 * thread. No exception crosses this boundary. `_release` functions accept NULL. A returned string belongs to the library and lives as long as the object it came
 * from, unless its function names ingot_string_release.
 *
 * Threads: one thread at a time may use options, a model or a session; any number may use a plan or weights. Sessions of one plan run in parallel. A state may be
 * passed between threads; a second use at the same time is refused (see states).
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
 *   ingot_session_output(session, 0, &rank, &out_dims);       // allocate this many float32
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
  INGOT_INVALID_OPTION = 4,  /* an unknown option, or a value that it does not take */
  INGOT_FORMAT = 5,          /* a file is damaged, truncated, or of another kind */
  INGOT_VERSION = 6,         /* a file, a driver or a library is too new or too old, or a plan has no program for the device */
  INGOT_OUT_OF_MEMORY = 7,
  INGOT_DEVICE = 8,          /* a device or one of its libraries is missing or failed */
  INGOT_ACCURACY = 9,
  INGOT_CANCELLED = 10,      /* the progress callback cancelled the build */
  INGOT_IO = 11,             /* a file cannot be opened, read or written */
  INGOT_SINGULAR = 12        /* a matrix has no inverse, solution or factor that the model asks for */
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
  const char* origin;        /* the line of the user's program, or "" */
  const char* remedy;        /* what to do, or "" */
} ingot_error;

typedef struct ingot_tensor {
  void* data;                /* memory of the host, or of the session's GPU; on the GPU the axes must be in the plan's order (ingot_binding.order) */
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
  const int64_t* dims;       /* at the usual sizes (each dynamic axis at its "opt"; 0 if these contradict each other); ingot_plan_describe has the ranges */
  int32_t written;           /* 1: the function writes to this memory (an input that the model changes, a state) */
  const uint8_t* order;      /* the rank axes in memory order, outermost first, e.g. {0, 2, 3, 1} for a channels_last image; NULL = row-major. An input or weight
                              * whose strides have this order is read in place; any other one on the host is copied. dims are not permuted. */
} ingot_binding;

typedef struct ingot_options ingot_options;
typedef struct ingot_model ingot_model;
typedef struct ingot_plan ingot_plan;
typedef struct ingot_weights ingot_weights;
typedef struct ingot_session ingot_session;
typedef struct ingot_state ingot_state;

/* ---- the library */

INGOT_API ingot_status ingot_version(int32_t* major, int32_t* minor, int32_t* patch);
/* The last failure of this thread; never NULL, empty if there was none. */
INGOT_API const ingot_error* ingot_last_error(void);
INGOT_API void ingot_string_release(char* text);
/* More folders to search for NVRTC, cuBLASLt and other NVIDIA libraries, after the system's own places and INGOT_LIBRARY_PATH: folders of libraries, or Python's
 * site-packages. Call it before the first of them is needed. */
INGOT_API ingot_status ingot_set_library_folders(const char* const* folders, size_t count);
typedef enum ingot_log_level { INGOT_LOG_DEBUG = 0, INGOT_LOG_INFO = 1, INGOT_LOG_WARNING = 2 } ingot_log_level;
typedef void (*ingot_log)(ingot_log_level level, const char* text, void* user);
/* Gives the library's lines for people to `log` instead of standard error: warnings, and what the variable INGOT_LOG asks for. NULL: standard error again. `log` is
 * called on the thread that has something to say, also on several at once; a line that is under way still reaches the old function. `text` has one line or more. */
INGOT_API ingot_status ingot_set_log(ingot_log log, void* user);
/* What profilers want called around the steps of a run. None of them may fail; runs on several threads call them at once. */
typedef struct ingot_step_watch {
  int (*wanted)(void* user); /* asked once a run, on its thread; 0: this run calls nothing more */
  /* Before a run of a function (its name; kernel is empty), and within it before each step (its label and its kernel). What it gives is passed to `end`. */
  void* (*begin)(const char* label, const char* kernel, void* user);
  void (*end)(void* begun, void* user);
  void* user;
} ingot_step_watch;
/* One watch for the process, copied; NULL: none (the default). On a GPU a step is what the host adds to the stream; a recorded CUDA graph is replayed without steps. */
INGOT_API ingot_status ingot_set_step_watch(const ingot_step_watch* watch);
/* The machine as JSON: instruction set, threads, version, GPUs, and for the driver and NVIDIA's libraries the path, or what to do about a missing one. Release with
 * ingot_string_release. */
INGOT_API ingot_status ingot_describe_machine(char** json);
/* Measures peak rates for about `seconds` on `threads` threads (0 = all allowed): {flops (float32 operations per second), bf16_flops (bfloat16 accumulated in
 * float32), bytes_per_second (read)}. Uses 256 MiB per thread. Release with ingot_string_release. */
INGOT_API ingot_status ingot_measure_machine(int32_t threads, double seconds, char** json);

/* Measures for about `seconds` what option machine="measured" chooses by: {processor, rates: {f32: multiply-adds a nanosecond of one core, ..}}, the text of the file that
 * `ingot doctor --measure --keep` writes. Release with ingot_string_release. */
INGOT_API ingot_status ingot_measure_rates(int32_t threads, double seconds, char** json);

/* ---- options */

INGOT_API ingot_status ingot_options_create(ingot_options** out);
/* Sets an option by name; the value is text ("2", "true"). INGOT_INVALID_OPTION names the nearest option. */
INGOT_API ingot_status ingot_options_set(ingot_options* options, const char* name, const char* value);
/* The table of options as JSON: [{name, type, default, kind, meaning}]; release with ingot_string_release. */
INGOT_API ingot_status ingot_options_describe(char** json);
INGOT_API void ingot_options_release(ingot_options* options);

/* ---- models [compiler] */

typedef struct ingot_weight_source {
  const char* name;          /* state-dict name */
  const void* data;          /* first element; must outlive the model and every plan made from it */
  size_t bytes;              /* readable from there */
  const int64_t* strides;    /* ingot_plan_with_weights: rank strides in elements; NULL = row-major. ingot_model_from_memory: NULL, since the JSON has them */
} ingot_weight_source;

/* Opens a torch.export archive (.pt2). It is mapped, not copied. */
INGOT_API ingot_status ingot_model_open(const char* path, ingot_model** out);
/* Makes a model from an archive's graph JSON and a table of weights. The JSON is not kept. It may name registered kernels, which an archive may not, so it must come
 * from a trusted source. */
INGOT_API ingot_status ingot_model_from_memory(const char* json, size_t bytes, const ingot_weight_source* weights, size_t count, ingot_model** out);
/* Sets the range and the name of a dynamic axis of an input. Axes of the same name have the same size. `name` may be "". */
INGOT_API ingot_status ingot_model_set_dim(ingot_model* model, const char* input, int64_t axis, int64_t min, int64_t opt, int64_t max, const char* name);
/* Sets a text that the plan carries for its caller (Python stores its pytree specs there). */
INGOT_API ingot_status ingot_model_set_signature(ingot_model* model, const char* text);
/* {inputs: [{name, dtype, dims, ranges}], outputs: [...], weights: n, missing: [...]}. ranges has one entry per axis: null for a fixed size, or {min, max, factor,
 * offset} for a dynamic size factor * n + offset. Release with ingot_string_release. */
INGOT_API ingot_status ingot_model_describe(const ingot_model* model, char** json);
INGOT_API void ingot_model_release(ingot_model* model);

/* Called with the current stage and the fraction done; a value other than 0 cancels. */
typedef int (*ingot_progress)(const char* stage, double fraction, void* user);
INGOT_API ingot_status ingot_compile(const ingot_model* model, const ingot_options* options, ingot_progress progress, void* user, ingot_plan** out);
/* Reports, without building, how ingot_compile would divide the model, as JSON: {operators, in_engine, whole, text,
 * segments: [{operators, gain_us, cost_us, inputs: [names of values, {input: name} or {state: name} for the model's own], outputs: [names],
 *   orders (per output: its axes in memory order if it is permuted, else empty)}],
 * nodes: [{name, target, segment (null: runs in torch), reason, origin, and with option autocast precision ("float16", "float32", "" without floats) and
 *   precision_reason}], autocast (if on): {type, casts (number of values), unused: [patterns that match nothing]},
 * missing: [{target, count, reason, origin, segments_with, in_engine_with (if this operator were supported)}]}.
 * Release with ingot_string_release. */
INGOT_API ingot_status ingot_explain(const ingot_model* model, const ingot_options* options, char** json);
/* The operator table as JSON: [{name, schema, family}]; release with ingot_string_release. */
INGOT_API ingot_status ingot_ops_describe(char** json);
/* The overloads of ATen for inference that the table lacks, as JSON: [{name, group ("composite": torch decomposes it), reason}]; release with
 * ingot_string_release. */
INGOT_API ingot_status ingot_ops_describe_absent(char** json);

/* ---- plans */

/* How far a file is trusted. In any case, every number in a plan is checked before it is used. CPU steps contain no machine code. */
typedef enum ingot_trust {
  INGOT_TRUST_AUTO = 0,      /* device code runs if this user's ingot compiled it on this machine; otherwise it is compiled from the plan's graph (libingot), or
                              * INGOT_VERSION (libingot_runtime, which has no compiler) */
  INGOT_TRUST_DATA = 1,      /* nothing in the file is executed, and all its checksums are compared; device code is always compiled from the graph */
  INGOT_TRUST_CODE = 2       /* device code in the file runs: only for files that you trust like a program of their author */
} ingot_trust;

/* Maps the file and checks its metadata with INGOT_TRUST_AUTO; weights are not read. Overwriting or truncating the file while it is mapped changes the weights or
 * kills the process (SIGBUS). Replace files by renaming, as ingot does, or use ingot_plan_load_with(.., map = 0, ..). */
INGOT_API ingot_status ingot_plan_load(const char* path, ingot_plan** out);
/* The same with a level of trust. map = 0: the whole file is read into memory, and all its checksums are compared. */
INGOT_API ingot_status ingot_plan_load_with(const char* path, ingot_trust trust, int map, ingot_plan** out);
/* A file that one of `count` keys has signed (`ingot sign`), and that was not changed since; otherwise INGOT_FORMAT, and nothing of it is used. It is trusted like
 * INGOT_TRUST_CODE, and read whole. A key is a text, "ed25519:" and 64 hexadecimal digits, or the path of a file with such texts, one a line. Needs libsodium:
 * INGOT_DEVICE if it is not found. */
INGOT_API ingot_status ingot_plan_load_signed(const char* path, const char* const* keys, size_t count, ingot_plan** out);
/* The bytes must not change until the plan and everything made from it are released. INGOT_TRUST_AUTO. */
INGOT_API ingot_status ingot_plan_load_memory(const void* data, size_t bytes, ingot_plan** out);
INGOT_API ingot_status ingot_plan_load_memory_with(const void* data, size_t bytes, ingot_trust trust, ingot_plan** out);
/* As ingot_plan_load_signed, for the bytes of a file. */
INGOT_API ingot_status ingot_plan_load_memory_signed(const void* data, size_t bytes, const char* const* keys, size_t count, ingot_plan** out);
/* [compiler] Writes the plan file `path`, with a signature by the secret key in the file `key`, to `out` (which may be `path`). A signature that it has is replaced.
 * Every other way of writing a plan writes it without a signature. */
INGOT_API ingot_status ingot_plan_sign(const char* path, const char* key, const char* out);
/* [compiler] Writes a new secret key to PATH.key, which only this user can read, and its public key to PATH.pub, and gives the text of the public key; release with
 * ingot_string_release. INGOT_IO if one of the files is there. */
INGOT_API ingot_status ingot_keys_make(const char* path, char** public_key);
/* Atomic: the file is the old one or the new one. Weights' values are left out if the plan was compiled with option weights="strip". */
INGOT_API ingot_status ingot_plan_save(const ingot_plan* plan, const char* path);
/* The bytes of a plan file. values = 0: without the weights' values (their "source" in ingot_plan_describe is "host"), for a program that stores them itself. After
 * loading such a plan, give each value with ingot_weights_set and call ingot_weights_commit; until then its sessions refuse to run. First values of states may be
 * omitted if memory is bound to the states. Release with ingot_bytes_release. */
INGOT_API ingot_status ingot_plan_write(const ingot_plan* plan, int values, uint8_t** bytes, size_t* count);
INGOT_API void ingot_bytes_release(uint8_t* bytes);
/* One function of a plan as a plan of its own, with its weights and its part of prepare. It is function 0 there. */
INGOT_API ingot_status ingot_plan_part(const ingot_plan* plan, uint32_t function, ingot_plan** out);
/* The same plan with new values for some weights, by name. They are borrowed as in ingot_model_from_memory, or copied if their axis order differs from the weight's
 * (ingot_binding.order). Other weights keep the plan's values; a plan without values needs all. */
INGOT_API ingot_status ingot_plan_with_weights(const ingot_plan* plan, const ingot_weight_source* values, size_t count, ingot_plan** out);
/* A LoRA adapter: a safetensors file (as PEFT, diffusers or kohya's scripts write it), or the folder that PEFT wrote. Its addition to the weights is multiplied by
 * `scale`. */
typedef struct ingot_adapter {
  const char* path;
  double scale;
} ingot_adapter;
/* [compiler] The same plan with new values for its weights, from `count` safetensors files, by state-dict name (0 files: the plan's own values), plus the adapters'
 * additions, summed in float32 and rounded once. INGOT_INVALID_INPUT lists names that the plan does not have, wrong dtypes and shapes, and weights that are in no
 * file; with allow_missing = 1 the latter keep the plan's values. The result embeds all values, even if the plan did not. It keeps the files mapped. */
INGOT_API ingot_status ingot_plan_refit(const ingot_plan* plan, const char* const* weights, size_t count, const ingot_adapter* adapters, size_t adapter_count, int allow_missing,
                                        ingot_plan** out);
/* [compiler] Which tensors of an adapter change which of these weights, by names alone, as JSON: [{weight, down, up (tensor indices), alpha_tensor (index or null),
 * alpha (from the configuration, or null), by_root, transposed}]. `config`: the text of its adapter_config.json, or NULL. The weight gets alpha / rank * up @ down,
 * where down has `rank` rows, and alpha is the rank if nothing gives it; by_root: divided by the root of the rank instead. Release with ingot_string_release. */
INGOT_API ingot_status ingot_adapter_describe(const char* const* tensors, size_t count, const char* config, const char* const* weights, size_t weight_count, char** json);
/* 32 bytes; zeros for a plan that was never written or read. */
INGOT_API ingot_status ingot_plan_hash(const ingot_plan* plan, uint8_t* hash);
/* Checks the weights' bytes too (ingot_plan_load checks metadata only). */
INGOT_API ingot_status ingot_plan_verify(const ingot_plan* plan);
/* The number of inputs and outputs of a function (0 = forward), and their descriptions, whose pointers live as long as the plan. */
INGOT_API ingot_status ingot_plan_count(const ingot_plan* plan, uint32_t function, size_t* inputs, size_t* outputs);
INGOT_API ingot_status ingot_plan_input(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out);
INGOT_API ingot_status ingot_plan_output(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out);
/* open = 1 if the sizes of an output are read from data while the function runs (nonzero, item): see ingot_session_run_with. */
INGOT_API ingot_status ingot_plan_output_is_open(const ingot_plan* plan, uint32_t function, size_t index, int* open);
/* The states of a function: buffers that it writes, such as running means and caches. Their first values are weights of the plan. Functions that write the same
 * buffer have a state of the same name. */
INGOT_API ingot_status ingot_plan_state_count(const ingot_plan* plan, uint32_t function, size_t* states);
INGOT_API ingot_status ingot_plan_state(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out);
/* The number of weights of the plan, and their descriptions (by state-dict name), whose pointers live as long as the plan. `written`: the weight is only the first
 * value of a state. */
INGOT_API ingot_status ingot_plan_weight_count(const ingot_plan* plan, size_t* count);
INGOT_API ingot_status ingot_plan_weight(const ingot_plan* plan, size_t index, ingot_binding* out);
/* The value of a weight in place: dense, with its axes in its binding's order; NULL if the plan was saved without it. Lives as long as the plan. */
INGOT_API ingot_status ingot_plan_weight_value(const ingot_plan* plan, size_t index, const void** data);
/* Functions, bindings with symbolic dims, sizes, steps, weights, registered kernels ("external"), signature and provenance as JSON; release with
 * ingot_string_release. */
INGOT_API ingot_status ingot_plan_describe(const ingot_plan* plan, char** json);
/* The programs of each target as text: buffers, and every step with its operands' layouts. Release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_programs(const ingot_plan* plan, char** text);
/* [compiler] Compiles the plan's graphs again and reports the decisions as text: which values have memory and why, and for every step the backend's offers, their
 * costs, the chosen one (*), and the reasons of refusals. `target`: as in the option of that name; null: those of the plan. No device code is made.
 * Release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_offers(const ingot_plan* plan, const char* target, char** text);
/* The canonical graph of a function as text; release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_graph(const ingot_plan* plan, uint32_t function, char** text);
/* [compiler] Draws a graph's text (from ingot_plan_graph or a file of INGOT_DUMP). Format "svg", "dot" for Graphviz, or "onnx" for viewers such as Netron (types,
 * sizes and attributes of all nodes, no values of weights). Release with ingot_bytes_release. */
INGOT_API ingot_status ingot_graph_draw(const char* text, const char* format, uint8_t** bytes, size_t* count);
/* [compiler] Runs a function's graph by the reference interpreter: slow, exact. Outputs: row-major, with the resolved dims. */
INGOT_API ingot_status ingot_plan_reference(const ingot_plan* plan, uint32_t function, const ingot_tensor* inputs, size_t input_count, const ingot_tensor* outputs,
                                            size_t output_count);
/* [compiler] Runs prepare and a function step by step on a device (options: device, threads), and compares each step's results with the reference interpreter:
 * {target, steps: [{function, step, kernel, label, origin, dtype (null: not compared), largest, absolute, roundings, bound, over}], first: the first step over its
 * bound, or null}. `bound`: in roundings of the largest element; 0 = the default for float32, 1000; half types also get their own rounding (docs/verify.md). stop =
 * 1: stops at the first step over its bound. Inputs are host memory. Release with ingot_string_release. */
INGOT_API ingot_status ingot_plan_verify_steps(const ingot_plan* plan, uint32_t function, const ingot_options* options, const ingot_tensor* inputs, size_t input_count,
                                               double bound, int stop, char** json);
/* Reference-counted: weights and sessions keep their plan alive. */
INGOT_API void ingot_plan_release(ingot_plan* plan);

/* ---- weights */

/* Places the weights where they are read, and runs the plan's prepare function (packing, merging), unless their values are still to be given (see ingot_plan_write).
 * Options: threads, device ("cpu", "cuda", "cuda:1"). If the plan has no program for the GPU, one is compiled from its graph ([compiler]; needs NVRTC; compiled code
 * is cached); libingot_runtime returns INGOT_VERSION. */
INGOT_API ingot_status ingot_weights_create(const ingot_plan* plan, const ingot_options* options, ingot_weights** out);
/* Sets a new value for a weight, of the same dtype and shape; `strides`: rank strides in elements, NULL = row-major. copy = 0: the memory must outlive the weights,
 * and may be the GPU's. A value in another axis order than the weight's (ingot_binding.order) is copied before this returns; on a GPU it is refused. */
INGOT_API ingot_status ingot_weights_set(ingot_weights* weights, const char* name, const void* data, size_t bytes, const int64_t* strides, int copy);
/* Prepares what depends on the values set since the last commit, and swaps all of them in at once: a run sees all of them or none. Current runs finish with the old
 * values, whose memory is freed after the last of them; unchanged values are shared. If nothing was set, everything is prepared again, since borrowed memory may
 * have changed. A failed commit leaves the weights unchanged, and the set values wait for the next commit. */
INGOT_API ingot_status ingot_weights_commit(ingot_weights* weights);
/* A second set of weights of the same plan, with the values of the last commit: another version, or an adapter. Both share what is equal, whichever of them a value
 * is set in: a fork costs the memory of its own values and of what commits prepare from them. Values that were set here but not committed are not in the fork. A
 * commit with nothing set prepares everything again, so that nothing prepared is shared any more. */
INGOT_API ingot_status ingot_weights_fork(const ingot_weights* weights, ingot_weights** out);
/* What an adapter adds to weights on a GPU: writes base + up down, for `count` groups of four matrices of one floating-point type (up [m, k], down [k, n], base and sum
 * [m, n], row-major, on the weights' GPU), whose addresses `memory` has in this order. sizes: m, n, k. Each base is read and each sum written once; a sum overlaps none
 * of the others. Half precision is summed in float32 and float32 in TF32 or better. The work is in `stream` (a CUstream; NULL: the default one). INGOT_UNSUPPORTED if
 * the weights are on the host. */
INGOT_API ingot_status ingot_weights_add_products(const ingot_weights* weights, ingot_dtype dtype, const int64_t* sizes, void* const* memory, size_t count, void* stream);
/* The device of the weights and of their sessions: the number of a GPU, or -1 for the host. */
INGOT_API ingot_status ingot_weights_device(const ingot_weights* weights, int32_t* gpu);
/* Memory of a GPU in bytes. All numbers are 0 if the weights are on the host. */
typedef struct ingot_memory {
  uint64_t resident;         /* weights on the device, including those that the caller holds there */
  uint64_t streamed;         /* weights in page-locked host memory, which are copied to the device ahead of the steps that read them */
  uint64_t ring;             /* the device memory to which they are copied; each session has its own */
  uint64_t arena;            /* memory of a run between its steps. Of weights: the part of the limit reserved for it. Of a session: at its last sizes */
  uint64_t limit;            /* option memory_bytes; 0: none */
  uint64_t least;            /* the smallest limit that works */
} ingot_memory;
/* Changes the option memory_bytes from the next run of each session on: the weights that stay on the device and one session's run take at most this many bytes of
 * it, and the other weights are streamed. 0: no limit; -1: nine tenths of the free memory. Old memory is freed when no session uses it. The plan and the limit alone
 * decide which weights stay. Results are the same, bit by bit. INGOT_OUT_OF_MEMORY names the smallest limit that works; INGOT_INVALID_OPTION: another value than 0
 * or -1 on the CPU. After an error nothing has changed.
 * If a run needs more arena than is reserved, more weights are streamed from then on. The new values of a commit and the old ones are both on the device until no
 * session reads the old ones. Borrowed values on the device (ingot_weights_set) remain the caller's: a streamed one is copied to the host, and the caller may free
 * the device memory. */
INGOT_API ingot_status ingot_weights_set_memory(ingot_weights* weights, int64_t memory_bytes);
INGOT_API ingot_status ingot_weights_memory(const ingot_weights* weights, ingot_memory* out);
INGOT_API void ingot_weights_release(ingot_weights* weights);

/* ---- sessions */

/* `function`: index in the plan, 0 = forward. The session runs on the device of its weights. Options: threads. */
INGOT_API ingot_status ingot_session_create(const ingot_plan* plan, ingot_weights* weights, uint32_t function, const ingot_options* options, ingot_session** out);
/* Computes the outputs' sizes for inputs of these shapes (data may be NULL); see ingot_session_output. For an output whose sizes the model reads from data while it
 * runs (nonzero, item): their upper bounds, or -1 without one. */
INGOT_API ingot_status ingot_session_resolve(ingot_session* session, const ingot_tensor* inputs, size_t count);
/* Rank and dims of an output: after resolve the resolved ones, after a run the actual ones. They live until the next resolve or run. */
INGOT_API ingot_status ingot_session_output(const ingot_session* session, size_t index, int32_t* rank, const int64_t** dims);
/* Runs on the calling thread and the session's workers; returns when the outputs are written. Inputs: in the order of the plan's bindings, with any strides (see
 * ingot_binding.order); those that the plan writes are changed in place. Outputs: row-major, with the resolved dims. Allocates nothing after the first call at a
 * size. An output whose sizes are read from data: memory of the resolved dims, whose first elements are the result (ingot_session_output gives its dims), or data
 * NULL if ingot_session_set_output_memory was called. */
INGOT_API ingot_status ingot_session_run_with(ingot_session* session, const ingot_tensor* inputs, size_t input_count, const ingot_tensor* outputs, size_t output_count);
/* Allocates an output whose sizes are read from data, once they are known; `dims` has its rank. On a GPU it must be memory of that GPU. NULL: there is no memory,
 * and the run ends with INGOT_OUT_OF_MEMORY. Called by ingot_session_run_with, in its thread. */
typedef void* (*ingot_output_memory)(void* user, size_t output, const int64_t* dims, int32_t rank);
/* NULL (the default): memory is given with each run. */
INGOT_API ingot_status ingot_session_set_output_memory(ingot_session* session, ingot_output_memory give, void* user);
/* On a GPU, later runs are work in this CUDA stream of the caller (a CUstream or cudaStream_t; NULL, the default, is the default stream). A run whose tensors are
 * all on the GPU returns before it is done; the next run, or ingot_session_wait, reports its errors (an index out of range). While the caller captures the stream, a
 * run is captured with it, in memory of its own if the session keeps its memory: the graph holds that, the plan's code, the weights that ingot copied or prepared, and
 * the state. It may be launched after the session and the weights are released, but what the caller lent must still be there: tensors, memory of ingot_weights_set,
 * and an allocator. Ignored on the CPU. */
INGOT_API ingot_status ingot_session_set_stream(ingot_session* session, void* stream);
/* Memory from the caller. `allocate` returns NULL if there is none; for a GPU it returns memory of that GPU, aligned to 256 bytes. */
typedef struct ingot_allocator {
  void* (*allocate)(void* user, size_t bytes);
  void (*release)(void* user, void* memory, size_t bytes);
  void* user;
} ingot_allocator;
/* Later runs allocate the memory for values between steps from here, and free it before they return. On a GPU the session's stream may still be using it then, so
 * its next user must be ordered after that stream. NULL (the default): the session keeps its own memory between runs. */
INGOT_API ingot_status ingot_session_set_allocator(ingot_session* session, const ingot_allocator* allocator);
/* Sets the weights of later runs: a fork of the session's (ingot_weights_fork), or the weights that they are a fork of; otherwise INGOT_INVALID_INPUT. The session
 * keeps the sizes that it resolved and, on a GPU, its recordings for both. Its own state takes first values from the new weights. It keeps them alive. */
INGOT_API ingot_status ingot_session_set_weights(ingot_session* session, ingot_weights* weights);
/* The device memory that the session's weights and runs take. */
INGOT_API ingot_status ingot_session_memory(const ingot_session* session, ingot_memory* out);
/* Waits until all runs are done; INGOT_INVALID_INPUT if one of them met an index out of range. */
INGOT_API ingot_status ingot_session_wait(ingot_session* session);
/* Sets the state that later runs write (see states). NULL: the session's own state (the default), which takes memory when a run first needs it. Switching is free,
 * except that work on a GPU, which is recorded for its recent addresses, is recorded again for new ones. The session keeps the state alive. INGOT_INVALID_INPUT if
 * the state was made for another plan or device. */
INGOT_API ingot_status ingot_session_set_state(ingot_session* session, ingot_state* state);
/* ingot_state_bind on the session's current state, by the index among the function's states. */
INGOT_API ingot_status ingot_session_bind_state(ingot_session* session, size_t index, const ingot_tensor* memory);
/* Copies a state out of the session (into_session = 0) or into it, row-major; `bytes` must be its size. */
INGOT_API ingot_status ingot_session_state(ingot_session* session, size_t index, void* data, size_t bytes, int into_session);
/* Sets the entries of the session's state back to the weights' values; bound memory is unchanged. */
INGOT_API ingot_status ingot_session_reset(ingot_session* session);
/* on = 1: later runs measure each step; on = 0: they do not. `json`: NULL, or receives the last measured run: {steps: [{label, kernel, origin (the user's line),
 * nanoseconds, bytes (read and written), sizes}], call_nanoseconds: of the whole run, for its caller, resolutions: how often the session has resolved sizes}.
 * Release with ingot_string_release. */
INGOT_API ingot_status ingot_session_profile(ingot_session* session, int on, char** json);
/* The last measured run as a JSON trace for Perfetto or chrome://tracing: the call on a track of the CPU, the steps on a track of their device. Release with
 * ingot_string_release. */
INGOT_API ingot_status ingot_session_trace(ingot_session* session, char** json);
INGOT_API void ingot_session_release(ingot_session* session);

/* ---- states
 *
 * A state is the memory that a model writes (buffers, caches, counters), separate from the sessions that run the model: one per sequence, user or conversation,
 * while a few sessions serve them all. It has an entry for each buffer that any function of the plan writes; functions share entries by name.
 *
 *   ingot_state *a, *b;
 *   ingot_state_create(plan, weights, &a);
 *   ingot_session_set_state(session, a);
 *   ingot_session_run_with(session, ...);                     // writes a
 *   ingot_state_fork(a, &b);                                  // independent from here on
 *
 * It also has an entry for each row-major input that some function writes, by the input's name. So a cache can have a dynamic length, which a buffer in torch
 * cannot. A run whose tensor for that input has no memory (data NULL, dims of the entry) reads and writes the entry. Such an entry starts as zeros, and takes memory
 * when it is first used.
 *
 * One run or call at a time may use a state, from any thread; a second one at the same time gets INGOT_INVALID_INPUT and changes nothing. On a GPU a run with a
 * state waits for all earlier work with it, in any stream (but while the caller captures a stream, ordering is up to the caller). The functions below return when
 * their work is done. A function that fails leaves its states unchanged. */

/* Creates a state: every entry gets memory on the weights' device, and its weight's current value. An entry whose value the plan was saved without gets memory when
 * it is written or bound, or when the weight has a value. */
INGOT_API ingot_status ingot_state_create(const ingot_plan* plan, ingot_weights* weights, ingot_state** out);
/* The same with sizes for dynamic axes of inputs, by their names in ingot_plan_describe; others have their usual sizes. */
typedef struct ingot_size {
  const char* name;
  int64_t value;
} ingot_size;
INGOT_API ingot_status ingot_state_create_with(const ingot_plan* plan, ingot_weights* weights, const ingot_size* sizes, size_t count, ingot_state** out);
/* Enlarges sizes: elements keep their indices, new ones are zero, and the entry moves to new memory. INGOT_INVALID_INPUT for smaller sizes, and for entries in bound
 * memory. */
INGOT_API ingot_status ingot_state_grow(ingot_state* state, const ingot_size* sizes, size_t count);
/* The number of entries, and their descriptions, whose pointers live until the state grows or is released. */
INGOT_API ingot_status ingot_state_count(const ingot_state* state, size_t* entries);
INGOT_API ingot_status ingot_state_entry(const ingot_state* state, size_t index, ingot_binding* out);
/* A new state with the same sizes and a copy of every entry, in its own memory. */
INGOT_API ingot_status ingot_state_fork(ingot_state* state, ingot_state** out);
/* Copies every entry of `from` to `to`. Both must be of the same plan, on the same device, with the same sizes. */
INGOT_API ingot_status ingot_state_copy(ingot_state* to, ingot_state* from);
/* Sets every entry to its weight's current value, also in bound memory. */
INGOT_API ingot_status ingot_state_reset(ingot_state* state);
/* Copies an entry, by name, to or from `bytes` bytes (its size), row-major, in memory of the host or of the state's device. */
INGOT_API ingot_status ingot_state_read(ingot_state* state, const char* name, void* data, size_t bytes);
INGOT_API ingot_status ingot_state_write(ingot_state* state, const char* name, const void* data, size_t bytes);
/* Saves all entries to a safetensors file (name, dtype, shape, row-major values), atomically. */
INGOT_API ingot_status ingot_state_save(ingot_state* state, const char* path);
/* Loads every entry from such a file. It must have been saved from a state with the same entries, in any process and on any device; otherwise INGOT_FORMAT. Nothing
 * else in the file is trusted. */
INGOT_API ingot_status ingot_state_load(ingot_state* state, const char* path);
/* Binds an entry to the caller's memory, with its current content: every run reads and writes it in place. It has the entry's dtype and sizes and any strides (on
 * the state's GPU: row-major), and must outlive its use. data NULL: the state's own memory again, with the weight's value at that time. */
INGOT_API ingot_status ingot_state_bind(ingot_state* state, const char* name, const ingot_tensor* memory);
/* The memory of an entry, to be accessed without a copy while no run uses the state. Memory, dims and strides stay valid until the state is released or grows, or
 * memory is bound to the entry. */
INGOT_API ingot_status ingot_state_tensor(ingot_state* state, const char* name, ingot_tensor* out);
/* A session that uses the state keeps it alive until it gets another one. */
INGOT_API void ingot_state_release(ingot_state* state);

#ifdef __cplusplus
}
#endif
#endif
