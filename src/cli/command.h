// Shared by the verbs: handles that release themselves, statuses that throw, inputs from the command line.
#pragma once
#include <simdjson.h>
#include <CLI/CLI.hpp>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "ingot/ingot.h"
#include "npy.h"

namespace ingot::cli {

// Exit codes: 2 for an invalid command line, 10 + ingot_status for errors of the library.
inline constexpr int usage = 2;
struct Failure {
  int code;
  std::string text;
};
void write_text(const std::string& path, const std::string& text);  // throws Failure
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts, unsigned mode = 0666);  // see base/atomic_file.h; throws Failure
std::shared_ptr<const MappedFile> read_file(const std::string& path);  // whole; throws Failure
void check(ingot_status status);  // throws Failure with the last error

template <class T, void (*Release)(T*)>
struct Releaser {
  void operator()(T* p) const { Release(p); }
};
using Options = std::unique_ptr<ingot_options, Releaser<ingot_options, ingot_options_release>>;
using Model = std::unique_ptr<ingot_model, Releaser<ingot_model, ingot_model_release>>;
using Plan = std::unique_ptr<ingot_plan, Releaser<ingot_plan, ingot_plan_release>>;
using Weights = std::unique_ptr<ingot_weights, Releaser<ingot_weights, ingot_weights_release>>;
using Session = std::unique_ptr<ingot_session, Releaser<ingot_session, ingot_session_release>>;
using State = std::unique_ptr<ingot_state, Releaser<ingot_state, ingot_state_release>>;

// How a verb reads its plan.
struct Source {
  std::string path;
  ingot_trust trust = INGOT_TRUST_AUTO;
  bool whole = false;
  bool is_signed = false;         // by one of the keys
  std::vector<std::string> keys = {};

  void add_to(CLI::App& verb);  // the arguments plan, --trust, --keys and --no-mmap
};
Plan load_plan(const Source& source);

// Which state a verb's runs write.
struct StateSource {
  std::string file;                    // its content; empty: that of the plan
  std::vector<std::string> sizes;      // NAME=256, of open axes of caches
  std::string saved;                   // where the verb saves it; empty: nowhere

  bool is_given() const { return !saved.empty() || !file.empty() || !sizes.empty(); }
  void add_to(CLI::App& verb);  // the arguments --state and --state-size
};
Options make_options(const std::vector<std::string>& settings);  // NAME=VALUE each
// Copies and releases a text of the library.
std::string take(char* text);
inline std::string text_of(simdjson::dom::element e) { return std::string(std::string_view(e)); }
// Integers from 0, or from 1; their names appear in --help and messages.
inline const CLI::Range not_negative(0, std::numeric_limits<int>::max(), "NONNEGATIVE"), positive(1, std::numeric_limits<int>::max(), "POSITIVE");

struct Binding {
  std::string name;
  ingot_dtype dtype;
  std::vector<std::string> dims;  // numbers, or size expressions
  bool written = false;           // the plan writes to this input
};
struct Function {
  std::vector<Binding> inputs, outputs, states;
};
Function describe(const ingot_plan* plan, size_t function = 0);

// A loaded plan with a session, ready to run on arrays.
struct Runner {
  Plan plan;
  Weights weights;
  State state;  // null: the session's own, of buffers alone
  Session session;
  Function function;
  std::vector<HostArray> inputs, outputs;
  std::vector<ingot_tensor> in, out;

  Options options;
  uint32_t index = 0;  // of the function in the plan

  // `settings`: NAME=VALUE of options for running.
  Runner(const Source& source, int threads, const std::string& device = "auto", uint32_t index = 0, const std::vector<std::string>& settings = {});
  std::optional<std::vector<int64_t>> entry_of(const std::string& name) const;  // the sizes of the state's entry
  // Later runs write this state, if one is given. Inputs that it has an entry for are read there.
  void use(const StateSource&);
  // Sets inputs from NAME=file.npy or NAME=random:SEED; others are random. `shapes`, such as NAME=2,16, override the usual sizes.
  void fill(const std::vector<std::string>& given, const std::vector<std::string>& shapes);
  void run();
  static void* late_output(void* user, size_t output, const int64_t* dims, int32_t rank);
  HostArray state_array(size_t index);  // as the last run left it
  HostArray written_input(size_t index);
  void trace(const std::string& path);  // runs once more and writes a trace of the steps' times
};

// Each adds one verb.
void add_compile(CLI::App&);
void add_run(CLI::App&);
void add_bench(CLI::App&);
void add_refit(CLI::App&);
void add_inspect(CLI::App&);
void add_verify(CLI::App&);
void add_ops(CLI::App&);
void add_doctor(CLI::App&);
void add_cache(CLI::App&);
void add_sign(CLI::App&);
void add_keygen(CLI::App&);

}  // namespace ingot::cli
