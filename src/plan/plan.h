// A plan in memory: checked, immutable, plain structs. read.cpp makes it from a file, compile makes it from a graph,
// write.cpp writes it. Knows sizes, buffers, steps and weights; no graphs (canonical graphs are kept as text).
//
// What a function takes and gives is the same on every device; what it does there is a program for each target.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Where a tensor's bytes are.
struct Buffer {
  enum class Kind : uint8_t {
    arena,    // scratch of the session; lives from step `first` to step `last`
    binding,  // the caller's tensor `index` of Function::bindings
    weight,   // Plan::weights[index], its bytes as they lie
    derived,  // Target::derived[index], made by the target's prepare function
  };
  Kind kind;
  uint32_t index = 0;
  SizeRef bytes;             // size; for weights and bindings what the step may assume
  uint32_t first = 0, last = 0;
};

// A strided window on a buffer. Offset and strides are in elements.
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
  uint32_t origin = UINT32_MAX;        // Plan::origins, of the anchor
  std::string label;                   // for people: "matmul + bias + gelu"
  uint32_t writes = 0;                 // operands [operands.size() - writes, end) are written
};

// A step of a plan that was just made, whose kernel can be timed, or that could be done in several ways. Of no file.
struct TimedStep {
  size_t target, function, step;       // in the plan
  struct Way {
    std::string implementation;
    Step step;                         // with the same operands; its sizes are the function's
  };
  std::vector<Way> ways;               // the plan's own is the first
  std::string problem = {};            // Timing::problem of the choice between them
};

struct Check {
  SizeRef left, right;
  bool equal;                          // else left <= right
  uint32_t origin;
  std::string why;
};

struct Binding {
  std::string name;
  DType dtype;
  std::vector<SizeRef> dims;
  std::vector<uint8_t> order;          // inputs: the axes as they lie in memory, outermost first; empty = row-major. A tensor that lies otherwise is copied
  enum class Kind : uint8_t { input, output, state } kind;
  bool written = false;                // inputs: the function writes to the caller's memory
  uint32_t weight = UINT32_MAX;        // states: Plan::weights[weight] is the first value
};

// What one target does for a function. Sizes are the function's.
struct Program {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
};

// A tensor that one region makes and others read. Row-major.
struct Value {
  DType dtype;
  std::vector<SizeRef> dims;
};

// A function that a region runs: a value of the function around for each of its bindings, in their order, and a size for each of its symbols
// (UINT32_MAX: it reads the symbol itself, or has no use for it). Values are numbered: the bindings of the function around come first, then Function::values.
struct Call {
  uint32_t function;                   // of Plan::functions; behind the one that calls it
  std::vector<uint32_t> values;
  std::vector<SizeRef> symbols;
};

struct Region {
  enum class Kind : uint8_t { straight, branch, loop };
  // A loop runs its condition, then its body while that is true. `value` begins as a copy of `first`, and is what the body wrote to `next` from turn to turn.
  struct Carried {
    uint32_t first, value, next;
  };
  // A number of type int64 becomes the value of a symbol.
  struct Read {
    uint32_t value, symbol;
    uint32_t origin = UINT32_MAX;      // Plan::origins
    SizeRef bound = UINT32_MAX;        // a size that it is not above, if one is known
  };
  Kind kind;
  uint32_t condition = UINT32_MAX;     // branch: a 0-d bool. loop: the one that the condition writes
  std::vector<Call> calls;             // straight: one, or none where only sizes are read; branch: if true, if false; loop: condition, body
  std::vector<Carried> carried;
  std::vector<Read> reads;             // once it has run
};

struct Function {
  std::string name;                    // "forward"; "prepare" for a function over the weights
  std::vector<Symbol> symbols;
  SizeProgram sizes;                   // expressions over the symbols, of bindings, checks and all programs
  std::vector<Binding> bindings;       // inputs, then outputs, then states
  std::vector<Check> checks;
  std::string graph;                   // the canonical graph it was made from, text form
  std::vector<Program> programs;       // one for each of Plan::targets; a prepare function has its target's alone
  // In order. Empty where all sizes are known at the beginning and nothing branches: then the programs say what is done. Else the programs are empty.
  std::vector<Region> regions;
  std::vector<Value> values;           // between regions
};

// Where a symbol's value comes from: the size of an input's axis, which is linear in it.
struct SymbolSource {
  uint32_t binding = UINT32_MAX, axis = 0;
  LinearSize size;
};

struct Weight {
  std::string name;                    // state-dict name
  DType dtype;
  std::vector<int64_t> dims;
  std::vector<uint8_t> order;          // the axes as they lie in memory, outermost first; empty = row-major
  std::string tied_to;                 // or empty
  enum class Source : uint8_t { embedded, external, host } source = Source::embedded;
  const std::byte* data = nullptr;     // embedded: into the mapped file or the compiler's memory; dense, in its order
  uint64_t bytes = 0;
  std::shared_ptr<const void> keep;
};

// A tensor made from weights by the prepare function: merged, cast, packed.
struct Derived {
  std::string name;
  uint64_t bytes;
};

// Native code that a target's kernels are in.
struct DeviceCode {
  enum class Form : uint8_t { cubin, ptx } form = Form::cubin;
  uint32_t architecture = 0;           // 90: sm_90
  std::vector<std::string> kernels;    // by name: what is in it
  std::vector<std::byte> image;
};

// What a plan has for one target.
struct ForTarget {
  Target target;
  Function prepare;                    // no bindings; reads weight buffers, writes derived buffers
  std::vector<Derived> derived;
  std::vector<DeviceCode> code;
  std::vector<Timing> timings = {};    // sorted, none twice; hints: a machine that is not among them does without
};

struct Origin {
  std::string file, code, module, target;
  int line = 0;
};

enum class Values : uint8_t { embedded, left_out };        // of the weights; left out: the host gives them (Weight::Source::host)

// Where device code comes from: it is run unchecked, so a file's is used only when it was made here, or when its user trusts it.
enum class CodeFrom : uint8_t { here, trusted, elsewhere };

// What the user says of a file: data (nothing of it is executed, every checksum is compared), code (its device code may run), or neither: then device code
// that this user's ingot compiled on this machine is used (made_here.h). Other device code is left where it is.
enum class Trust : uint8_t { automatic, data, code };

struct Plan {
  std::vector<Function> functions;     // [0] is what run() runs by default
  std::vector<ForTarget> targets;         // the first is the usual one
  std::vector<Weight> weights;
  std::vector<Origin> origins;
  std::string signature;               // JSON of pytree in/out specs and names, for Python; empty from C++
  std::vector<std::pair<std::string, std::string>> provenance;  // producer, target, options: no times, no paths
  Values values = Values::embedded;    // in a file that is written of it
  CodeFrom code_from = CodeFrom::here;
  bool runs_external = true;           // kernels of the user's (steps "external") may run: the plan was made here, or its user trusts the file as code
  bool outdated = false;               // of an older format: its programs are not run; what it holds can be compiled anew from its graphs
  std::optional<uint64_t> weights_hash;  // what the file says; set by read
  std::array<std::byte, 32> hash{};    // content hash (over section hashes); set by write and read
  std::shared_ptr<const MappedFile> file;  // keeps mapped sections alive
};

// Kernels of the user's in its programs, by name, each once.
std::vector<std::string> external_kernels(const Plan&);
// Error (invalid_input) naming these kernels, if there are any and they may not run.
void check_external(const Plan&, const std::vector<std::string>& kernels);
// Every index, size program, kernel name and constant checked; Error (format) naming the first thing wrong.
void verify(const Plan&);
std::vector<std::byte> write(const Plan&, Values = Values::embedded);  // byte-identical for identical plans
void write_file(const Plan&, const std::string& path);     // see base/atomic_file.h
// Checks metadata, and where the file is read whole or nothing is trusted all sections. A mapped file's weights are read when they are used.
std::shared_ptr<const Plan> read_file(const std::string& path, Trust = Trust::automatic, MappedFile::Access = MappedFile::Access::mapped);
std::shared_ptr<const Plan> read(std::span<const std::byte> bytes, std::shared_ptr<const void> keep, Trust = Trust::automatic);
Plan part(const Plan&, size_t function);                   // that function alone, with the weights and the share of prepare it needs
std::vector<SymbolSource> symbol_sources(const Function&);  // one for each symbol; binding UINT32_MAX where no axis gives it
std::vector<bool> called_functions(const Plan&);           // those that regions of others run
std::vector<bool> only_first_values(const Plan&);          // weights that nothing reads but states that begin with them
void verify_content(const Plan&);                          // hashes of all sections: `ingot verify`, trust="data"

}  // namespace ingot::plan
