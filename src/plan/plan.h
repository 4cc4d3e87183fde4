// A plan in memory: checked, immutable, plain structs. compile makes it from a graph, write.cpp writes it to a file, read.cpp reads it. It holds sizes,
// buffers, steps and weights, and canonical graphs only as text.
//
// What a function takes and returns is the same on every device. How it is computed there is a program per target.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/sizes.h"
#include "base/target.h"
#include "base/timing.h"
#include "ir/dtype.h"

namespace ingot::plan {

using ir::DType;
using SizeRef = uint32_t;    // index of an expression of Function::sizes
using BufferId = uint32_t;

struct Symbol {
  std::string name;
  int64_t min, opt, max;
};

// Which memory a buffer is.
struct Buffer {
  enum class Kind : uint8_t {
    arena,    // scratch of the session, in use from step `first` to step `last`
    binding,  // the caller's tensor `index` of Function::bindings
    weight,   // Plan::weights[index], as stored
    derived,  // ForTarget::derived[index], computed by the target's prepare function
  };
  Kind kind;
  uint32_t index = 0;
  SizeRef bytes;             // for weights and bindings: the size that steps may assume
  uint32_t first = 0, last = 0;
};

// A strided view of a buffer. Offset and strides are in elements.
struct OperandView {
  BufferId buffer;
  DType dtype;
  SizeRef offset;
  std::vector<SizeRef> dims, strides;
};

struct Step {
  std::string kernel;                  // RunKernel::name
  std::vector<OperandView> operands;
  std::vector<SizeRef> sizes;
  std::vector<std::byte> constants;
  uint32_t origin = UINT32_MAX;        // index in Plan::origins, of the anchor
  std::string label;                   // for display: "matmul + bias + gelu"
  uint32_t writes = 0;                 // operands [operands.size() - writes, end) are written
  // Kernels that compute the same of the same constants, operands and sizes. The runtime takes the fastest for its sizes, instruction set and threads.
  std::vector<std::string> alternatives = {};
};

// A step of a new plan that can be timed: its kernel has choices, or several kernels can do it. Not part of the file.
struct TimedStep {
  size_t target, function, step;       // in the plan
  struct Way {
    std::string implementation;
    Step step;                         // with the same operands; its sizes are indices in the function's sizes
  };
  std::vector<Way> ways;               // the first is the plan's own
  std::string problem = {};            // Timing::problem of the choice between the ways
};

struct Check {
  SizeRef left, right;
  bool equal;                          // true: left == right; false: left <= right
  uint32_t origin;
  std::string why;
};

struct Binding {
  std::string name;
  DType dtype;
  std::vector<SizeRef> dims;
  std::vector<uint8_t> order;          // inputs: axis order in memory, outermost first; empty = row-major. A tensor in another order is copied
  enum class Kind : uint8_t { input, output, state } kind;
  bool written = false;                // inputs: the function writes to the caller's memory
  uint32_t weight = UINT32_MAX;        // states: Plan::weights[weight] is the first value
};

// The steps of a function for one target. Sizes are the function's.
struct Program {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
};

// A tensor that one region writes and others read. Row-major.
struct Value {
  DType dtype;
  std::vector<SizeRef> dims;
};

// A call of a straight function by a region. For each binding of the callee: a value of the caller; for each of its symbols: a size (UINT32_MAX: the callee
// reads the symbol itself, or does not use it). Values are numbered: first the caller's bindings, then its Function::values.
struct Call {
  uint32_t function;                   // index in Plan::functions, after the caller's
  std::vector<uint32_t> values;
  std::vector<SizeRef> symbols;
};

struct Region {
  enum class Kind : uint8_t { straight, branch, loop };
  // A loop runs its condition, then its body while the condition is true; or its body `count` times. `value` starts as a copy of `first`; each
  // iteration writes `next`, which becomes `value`. If `next` is `value`, the body has it as an input that it writes in place.
  struct Carried {
    uint32_t first, value, next;
  };
  // An int64 number that becomes the value of a symbol.
  struct Read {
    uint32_t value, symbol;
    uint32_t origin = UINT32_MAX;      // index in Plan::origins
    SizeRef bound = UINT32_MAX;        // an upper bound, if one is known
  };
  Kind kind;
  uint32_t condition = UINT32_MAX;     // branch: a 0-d bool. loop: the 0-d bool that its condition writes
  std::vector<Call> calls;             // straight: one, or none if the region only reads sizes; branch: if true, if false; loop: condition, body; counted: body
  std::vector<Carried> carried;
  std::vector<Read> reads;             // after the calls
  SizeRef count = UINT32_MAX;          // of the iterations of a loop without a condition
};

struct Function {
  std::string name;                    // "forward"; "prepare" for a function over the weights
  std::vector<Symbol> symbols;
  SizeProgram sizes;                   // expressions over the symbols; used by bindings, checks and all programs
  std::vector<Binding> bindings;       // inputs, then outputs, then states
  std::vector<Check> checks;
  std::string graph;                   // the canonical graph of the function, as text
  std::vector<Program> programs;       // one per Plan::targets; a prepare function has one
  // In order. Empty if all sizes are known at entry and nothing branches: then the programs are what runs. Otherwise the programs are empty.
  std::vector<Region> regions;
  std::vector<Value> values;           // between regions
};

// How a symbol gets its value: from the size of an input's axis, which is linear in it.
struct SymbolSource {
  uint32_t binding = UINT32_MAX, axis = 0;
  LinearSize size;
};

struct Weight {
  std::string name;                    // state-dict name
  DType dtype;
  std::vector<int64_t> dims;
  std::vector<uint8_t> order;          // axis order in memory, outermost first; empty = row-major
  std::string tied_to;                 // the weight whose values these are, or empty
  enum class Source : uint8_t { embedded, external, host } source = Source::embedded;
  const std::byte* data = nullptr;     // embedded: in the mapped file or the compiler's memory; dense, in `order`
  uint64_t bytes = 0;
  std::shared_ptr<const void> keep;

  bool is_named(std::string_view text) const { return name == text || (!tied_to.empty() && tied_to == text); }
};

// A tensor that the prepare function computes from weights: merged, cast, packed.
struct Derived {
  std::string name;
  uint64_t bytes;
};

// Compiled code of a target's kernels.
struct DeviceCode {
  // Code of one architecture, or code that the driver translates for its device.
  enum class Form : uint8_t { machine, portable } form = Form::machine;
  uint32_t architecture = 0;           // 90: sm_90
  std::vector<std::string> kernels;    // names of the kernels in it
  std::vector<std::byte> image;
};

// The parts of a plan for one target.
struct ForTarget {
  Target target;
  Function prepare;                    // no bindings; reads weight buffers, writes derived buffers
  std::vector<Derived> derived;
  std::vector<DeviceCode> code;
  std::vector<Timing> timings = {};    // sorted, no duplicates; hints: GPUs without an entry do without
};

struct Origin {
  std::string file, code, module, target;
  int line = 0;
  // Of an error there.
  std::string text() const { return file.empty() ? std::string() : file + ":" + std::to_string(line) + (code.empty() ? "" : ": `" + code + "`"); }
};

// Of the weights. left_out: the host gives them (Weight::Source::host). unread: left out, and not even read for the hash of weights; for `write` alone.
enum class Values : uint8_t { embedded, left_out, unread };

// Where device code comes from. It runs unchecked, so code of a file runs only if it was compiled here or the user trusts the file.
enum class CodeFrom : uint8_t { here, trusted, elsewhere };

// What the user says of a file. data: nothing in it is executed, and every checksum is compared. code: its device code may run. automatic: device code runs
// if this user's ingot compiled it on this machine (made_here.h); other device code is ignored.
enum class Trust : uint8_t { automatic, data, code };

struct Plan {
  std::vector<Function> functions;     // [0] is the default of run()
  std::vector<ForTarget> targets;         // the first is the default
  std::vector<Weight> weights;
  std::vector<Origin> origins;
  std::string signature;               // JSON of pytree in/out specs and names, for Python; empty from C++
  std::vector<std::pair<std::string, std::string>> provenance;  // producer, target, options: no times, no paths
  Values values = Values::embedded;    // when it is written to a file
  CodeFrom code_from = CodeFrom::here;
  bool runs_external = true;           // registered kernels (steps "external") may run: the plan was compiled here, or its user trusts the file as code
  bool outdated = false;               // its programs are of another revision (file.h): they do not run, but can be compiled again from its graphs
  std::optional<Hash128> weights_hash;  // as stored in the file; set by read
  std::array<std::byte, 32> hash{};    // content hash: that of the metadata, then that of the weights; set by read
  std::string signer;                  // the key in the signature of the file that it was read from (signature.h); empty if there is none
  std::shared_ptr<const MappedFile> file;  // keeps mapped sections alive
};

// Names of the registered kernels that its programs call, without duplicates.
std::vector<std::string> external_kernels(const Plan&);
// Error (invalid_input) with the kernels' names if there are any and they may not run.
void check_external(const Plan&, const std::vector<std::string>& kernels);
// Checks every index, size program, kernel name and constant; Error (format) names the first one that is wrong.
void verify(const Plan&);
std::vector<std::byte> write(const Plan&, Values = Values::embedded);  // byte-identical for identical plans
void write_file(const Plan&, const std::string& path);     // see base/atomic_file.h
// Checks the metadata; also all other sections if the file is read whole or with Trust::data. Weights of a mapped file are read when they are used.
std::shared_ptr<const Plan> read_file(const std::string& path, Trust = Trust::automatic, MappedFile::Access = MappedFile::Access::mapped);
std::shared_ptr<const Plan> read(std::span<const std::byte> bytes, std::shared_ptr<const void> keep, Trust = Trust::automatic);
// The same of a file that one of the keys has signed (signature.h); then Trust::code. The file is read whole.
std::shared_ptr<const Plan> read_signed_file(const std::string& path, std::span<const std::string> keys);
std::shared_ptr<const Plan> read_signed(std::span<const std::byte> bytes, std::shared_ptr<const void> keep, std::span<const std::string> keys);
Plan part(const Plan&, size_t function);                   // that function alone, with its weights and its part of prepare
std::vector<SymbolSource> symbol_sources(const Function&);  // one per symbol; binding UINT32_MAX if no axis gives it
std::vector<bool> called_functions(const Plan&);           // per function: true if a region calls it
std::vector<bool> only_first_values(const Plan&);          // per weight: true if it is used only as the first value of a state
void verify_content(const Plan&);                          // hashes of all sections: `ingot verify`, trust="data"

}  // namespace ingot::plan
