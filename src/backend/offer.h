// What compile asks a backend, and all that it asks: which offers it has for a site, and why it has no others.
//
// A *site* is a kernel of a graph with what it could swallow: the body behind it, the maps and the body in front of an operand, pieces of a weight.
// An *offer* is one way to do it. Sites are asked about twice: as sketches, whose operands have sizes and no strides yet, to know what may be left
// without memory; and when everything has its place. Layouts of a body's operands are over its domain; its gathered axes come behind.
#pragma once
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backend/body.h"
#include "base/target.h"
#include "ir/encoding.h"
#include "ir/strided_layout.h"
#include "kernels/external/external.h"

namespace ingot::backend {

using ir::StridedLayout;

// B as a step of the backend writes it: a matrix in, one axis out.
struct Packing {
  std::string_view kernel;           // RunKernel::name of the step; operands B, packed; sizes K, N
  ir::Encoding encoding;             // of what is written
  bool operator==(const Packing&) const = default;
};

// C = A B with A [batch.., M, K], B [batch.., K, N]; batch axes of A and B have the result's sizes, stride 0 where they broadcast. The body's
// accumulator is C. Operands of the step: A (or those of its prologue), the pieces of B, then the body's.
struct Gemm {
  ir::DType type;                    // of A in memory, and of B
  StridedLayout a;
  std::vector<StridedLayout> b;      // one matrix, or pieces side by side along N with the same strides, without batch axes
  std::optional<Packing> packed = std::nullopt;  // B is what this step has made of it
  bool constant = false;             // no step of the function writes B
  size_t batch_rank = 0;
  // Implicit GEMM (a convolution): A's elements are those of `a` under this map of the indices batch.., m (m_rank of them), k (the rest), 0 outside of `a`.
  std::optional<ir::AffineMap> map = std::nullopt;
  size_t m_rank = 1;
  bool convolution = false;          // whose precision the settings choose by itself
  // One row whose body has half as many columns as B and sees both halves of them side by side (Instruction::half).
  bool gated = false;
  // A has one row, computed inside the kernel by this body and stored nowhere. In a sketch there is no body yet.
  struct Prologue {
    const FusedBody* body = nullptr;
    std::vector<StridedLayout> operands = {};
  };
  std::optional<Prologue> prologue = std::nullopt;
  // B's, where its numbers are not of A's type. A scale of each column is no operand of the kernel: the body multiplies by it, as it is the same for all of K.
  std::optional<ir::Encoding> encoding = std::nullopt;
};

// A convolution of each channel by itself: the result at the kept indices is the sum over the other ones of A times B. Operands of the step: A, B, then the
// body's, whose accumulator is the sum.
struct DepthwiseConv {
  ir::DType type;                    // of the sum, and of B
  ir::DType of_a = type;             // in memory; a half type is widened when it is read
  size_t kept = 0;
  ir::AffineMap map = {};            // of kept.., summed..: A's elements are those of `a` under it, 0 outside of `a`
  StridedLayout a = {}, b = {};      // b: over all indices, stride 0 where it does not depend on one
};

// softmax(scale Q K^T, masked) V with Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E]. The body, if there is one, is the mask: its accumulator is the
// scaled score, its store has no memory. Operands of the step: Q, K, V, the mask's loads, the result; the site's are all of these.
struct Attention {
  ir::DType type;
  double scale = 1;
  bool causal = false;
  size_t batch_rank = 0;
  ir::Dim s = 0, t = 0, d = 0, e = 0;
};

// The body alone.
struct Fused {};

// A kernel without a body (scan, sort, scatter), whose constants are the same for all backends. Operands of the step: as the kernel's x_args.h says.
struct Plain {
  std::string_view kernel;
  std::span<const std::byte> constants;
  std::vector<ir::DType> types;      // of the operands
};

// A kernel of the user's. Operands of the step, all row-major: its tensors in any order, then what it writes (kernels/external/run/external_args.h).
struct External {
  const kernels::External* kernel;
  std::vector<uint32_t> inputs;      // of each of its tensors: the operand of the step
  uint32_t results = 0;              // besides the new values of those that it writes in place
  size_t elementwise = SIZE_MAX;     // EmittedStep::elementwise
};

struct Site {
  std::variant<Fused, Gemm, DepthwiseConv, Attention, Plain, External> kernel;
  const FusedBody* body = nullptr;
  std::vector<StridedLayout> operands = {};
};
// "gemm", "scan": the name in messages.
std::string_view name_of(const Site&);
// Of a sketch the strides are not known.
inline bool is_placed(const StridedLayout& x) { return x.strides.size() == x.dims.size(); }
inline StridedLayout unplaced(ir::Dims dims) { return {std::move(dims), {}, 0}; }

// Device code of a step as text. Equal names have equal text, which is compiled once.
struct CodeUnit {
  // From the user: compiled, or taken, as it stands; `kernels` has one name, NAME:ENTRY, where ENTRY is the name in the text.
  enum class From : uint8_t { ingot, user, user_ptx };
  std::string name, text;
  std::vector<std::string> kernels;
  std::vector<std::string_view (*)()> libraries = {};  // texts in front of it, in order
  From from = From::ingot;
  std::string label = {};            // for people: the operator whose kernel it is
};

// A step, and what it needs besides its operands.
struct EmittedStep {
  std::string kernel;                // RunKernel::name
  std::vector<std::byte> constants;
  std::vector<ir::Dim> sizes;
  std::vector<CodeUnit> code = {};
  // Operands from this one on are read element by element, each before the result's element at the same place is written.
  size_t elementwise = SIZE_MAX;
};

// Costs compare the offers of one site: 1 is a multiplication for each element of the result at the rate of the fastest library.
inline constexpr double cost_of_a_pass = 2048;  // over the result in memory, by a step of its own

struct Offer {
  std::string_view implementation;   // "cublaslt", "panels": the name in reports
  double cost = 0;
  bool side_by_side = false;         // results that are no neighbours along the last axis are better stored as neighbours, and copied
  bool takes_body = true;            // else the result has to be stored by itself, and a step of its own does the body
  bool b_along_k = false;            // a constant B that has to be put in order anyway is better stored with its neighbours along K
  std::optional<Packing> packing = std::nullopt;  // a constant B [K, N] of known sizes is read as a step of its own has packed it; of a site whose B is packed: what is read
  // What its kernel decides at run time and can be timed for one set of sizes ("algorithm"): RunKernel::tunables has the choices.
  std::vector<std::string_view> tunables = {};
  std::function<EmittedStep()> emit = {};  // not of a sketch
};

// What an implementation does not take, and would have to be otherwise.
enum class Obstacle : uint8_t {
  types,     // nothing helps: a fused body has to do it
  a,
  b,
  c,      // the first, second or third operand: row-major in memory it may be taken
  body,      // the body: without it the site may be taken
  cost,      // nothing: another offer is cheaper
};

struct Refusal {
  std::string_view implementation;
  Obstacle obstacle;
  std::string reason;
};

struct Offers {
  std::vector<Offer> offers;         // in order of preference where costs are equal
  std::vector<Refusal> refusals;
};

// Device code, compiled.
struct DeviceCode {
  bool ptx = false;                  // else machine code
  int architecture = 0;
  std::vector<std::string> kernels;
  std::vector<std::byte> image;
};

// What results must be the same for, bit by bit.
enum class Deterministic : uint8_t {
  run,    // the same inputs
  batch,  // and whatever stands beside them in the batch
};

struct Settings {
  Deterministic deterministic = Deterministic::run;
  // Products of f32, and those that are convolutions, may read 10 bits of their operands' mantissas, where the target has such.
  bool tf32 = false, tf32_convolutions = false;
  // Whole bodies are offered by implementations that another one beats by little, too: which one is the fastest is known by time.
  bool rivals = false;
};

// Costs are no more exact than this: within it, time decides where there is time.
inline bool is_near(double cost, double least) { return cost <= 2 * least; }

// A backend's half of compile. Functions are pure; a backend is one line of run/backends.def.
struct Compiler {
  // Error (unsupported) where the target cannot do what the settings ask.
  void (*check)(const Target&, const Settings&);
  Offers (*offers)(const Site&, const Target&, const Settings&);
  std::vector<DeviceCode> (*compile)(std::span<const CodeUnit>, const Target&);
};
const Compiler& compiler_for(const Target&);

// Adds an offer if the site is one of these kernels without a body. `code`: of the step, on backends that have device code.
void offer_plain(const Site&, std::initializer_list<std::string_view> kernels, std::string_view implementation, Offers&, std::vector<CodeUnit> (*code)(const Plain&) = nullptr);

// The constants of a step with the user's kernel, but for where its code is. Its sizes are appended to `sizes`.
kernels::ExternalArgs external_args(const External&, std::vector<ir::Dim>& sizes);
// Adds an offer of the kernel's function for the host, if the site is a kernel of the user's; a refusal where it has none.
void offer_host_external(const Site&, Offers&);

// A map as steps read it: its steps, [axes][indices]; appended to a step's sizes the extents of its indices and the offsets along its axes. nullopt where
// an index goes backwards, or too far.
std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap&, std::vector<ir::Dim>& sizes);

}  // namespace ingot::backend
