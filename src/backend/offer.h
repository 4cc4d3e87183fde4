// The interface between compile and a backend: the offers for a site, and the reasons for having no others.
//
// A *site* is a kernel of a graph with everything that could be fused into it: the epilogue, maps and the prologue of an operand, pieces of a weight. An
// *offer* is one implementation of it. Compile asks twice: first for sketches, whose operands have sizes but no strides, to learn which values need no
// memory; then with all layouts. Layouts of a body's operands are over its domain, followed by their gathered axes.
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

// How B is packed by a step of the backend: from a matrix to one axis.
struct Packing {
  std::string_view kernel;           // RunKernel::name of the step; operands B, packed; sizes K, N
  ir::Encoding encoding;             // of the packed B
  bool operator==(const Packing&) const = default;
};

// C = A B with A [batch.., M, K], B [batch.., K, N]. Batch axes of A and B have the result's sizes, with stride 0 where they broadcast. The body is the
// epilogue: its accumulator is C. Operands of the step: A (or those of its prologue), the pieces of B, then the body's.
struct Gemm {
  ir::DType type;                    // of A in memory, and of B
  StridedLayout a;
  std::vector<StridedLayout> b;      // one matrix, or pieces side by side along N with equal strides; without batch axes
  std::optional<Packing> packed = std::nullopt;  // B is the output of this packing step
  bool constant = false;             // no step of the function writes B
  size_t batch_rank = 0;
  // Implicit GEMM (a convolution): A is read through this map from the indices batch.., m (m_rank of them), k (the rest) to `a`, with 0 outside `a`.
  std::optional<ir::AffineMap> map = std::nullopt;
  size_t m_rank = 1;
  bool convolution = false;          // the settings have a separate precision for convolutions
  // Gated epilogue: the body has half as many columns as B, and reads column n of both halves (Instruction::half).
  bool gated = false;
  // A has one row, computed inside the kernel by this body and stored nowhere. In a sketch there is no body yet.
  struct Prologue {
    const FusedBody* body = nullptr;
    std::vector<StridedLayout> operands = {};
  };
  std::optional<Prologue> prologue = std::nullopt;
  // Encoding of B, if its numbers are not of A's type. A scale per column is not an operand of the kernel: the body multiplies the sum by it.
  std::optional<ir::Encoding> encoding = std::nullopt;
};

// A depthwise convolution: the result at the kept indices is the sum of A times B over the other indices. Operands of the step: A, B,
// then the body's, whose accumulator is the sum.
struct DepthwiseConv {
  ir::DType type;                    // of the sum, and of B
  ir::DType of_a = type;             // in memory; a half type is widened when read
  size_t kept = 0;
  ir::AffineMap map = {};            // from kept.., summed.. to `a`, with 0 outside `a`
  StridedLayout a = {}, b = {};      // b: over all indices, stride 0 where b does not depend on one
};

// softmax(scale Q K^T, masked) V with Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E]. The optional body is the mask: its accumulator is the scaled
// score, and its store has no memory. Operands of the step: Q, K, V, the mask's loads, the result; the site's operands are these too.
struct Attention {
  ir::DType type;
  double scale = 1;
  bool causal = false;
  size_t batch_rank = 0;
  ir::Dim s = 0, t = 0, d = 0, e = 0;
};

// A fused body without an anchor.
struct Fused {};

// A kernel without a body (scan, sort, scatter). Its constants are the same for all backends. Operands of the step: see the kernel's x_args.h.
struct Plain {
  std::string_view kernel;
  std::span<const std::byte> constants;
  std::vector<ir::DType> types;      // of the operands
};

// A kernel that the user registered. Operands of the step, all row-major: its tensors in any order, then what it
// writes (kernels/external/run/external_args.h).
struct External {
  const kernels::External* kernel;
  std::vector<uint32_t> inputs;      // per tensor of the kernel: the operand of the step
  uint32_t results = 0;              // without the new values of tensors that it updates in place
  size_t elementwise = SIZE_MAX;     // EmittedStep::elementwise
};

struct Site {
  std::variant<Fused, Gemm, DepthwiseConv, Attention, Plain, External> kernel;
  const FusedBody* body = nullptr;
  std::vector<StridedLayout> operands = {};
  // Per operand of the step: true if it starts at a multiple of `alignment` bytes in each run, as the plan's own memory does. A caller's memory may start
  // anywhere. Empty: not known of any.
  std::vector<bool> aligned = {};
  static constexpr int64_t alignment = 16;
  std::span<const ir::Symbol> symbols = {};  // usual values and ranges of open sizes; a sketch has none
  // The usual and the largest value of a size; nullopt if the site does not say.
  std::optional<int64_t> usual(const ir::Dim&) const;
  std::optional<int64_t> largest(const ir::Dim&) const;
};
// True if all of these operands of the step start at aligned addresses in each run.
bool are_aligned(const Site&, std::span<const size_t> operands);
// "gemm", "scan": used in messages.
std::string_view name_of(const Site&);
// False for operands of a sketch, which have no strides.
inline bool is_placed(const StridedLayout& x) { return x.strides.size() == x.dims.size(); }
inline bool is_sketch(const Site& site) { return !site.operands.empty() && !is_placed(site.operands[0]); }
inline StridedLayout unplaced(ir::Dims dims) { return {std::move(dims), {}, 0}; }

// Device code of a step as text. Units of equal name have equal text and are compiled once.
struct CodeUnit {
  // user, user_ptx, user_cubin: registered by the user; compiled unchanged, or used as PTX or as a cubin. `kernels` then has one name,
  // NAME:ENTRY, where ENTRY is the name in the text.
  enum class From : uint8_t { ingot, user, user_ptx, user_cubin };
  using Library = std::string_view (*)();
  std::string name, text;
  std::vector<std::string> kernels;
  std::vector<Library> libraries = {};  // texts to put before it, in order
  From from = From::ingot;
  std::string label = {};            // for display: the operator that has this kernel
  std::string shared = {};           // a text to put between the libraries and it, once for all units that have it
};

// A step, and what it needs besides operands.
struct EmittedStep {
  std::string kernel;                // RunKernel::name
  std::vector<std::byte> constants;
  std::vector<ir::Dim> sizes;
  std::vector<CodeUnit> code = {};
  // Operands from this index on are read element by element, before the result's element at the same place is written.
  size_t elementwise = SIZE_MAX;
  // Steps with equal names here can be one step, if they are independent (Compiler::join); empty: not this one.
  std::string alike = {};
  // The step in the form in which it is joined, with code that it would not launch alone; null: there is no other.
  std::shared_ptr<const EmittedStep> whole = {};
  // The step is faster if its result takes the memory of an operand that is read element by element, since the caches hold that.
  bool reuses = false;
  // Kernels of other offers for the site whose steps are equal but for the kernel: see plan::Step. Compile sets them.
  std::vector<std::string> alternatives = {};
};

// Costs compare the offers for one site. The unit is one multiplication per element of the result, at the rate of the fastest library.
inline constexpr double cost_of_a_pass = 2048;  // of a separate step over the result in memory
inline constexpr double cost_of_a_copy = 480;   // of reading and writing an element of A (an estimate for GPUs)

// How an operand should lie for an offer to be worth its cost. Compile stores or copies it so where that pays.
struct Wish {
  enum class Operand : uint8_t { a, b, result };
  enum class Axis : uint8_t { m, n, k };  // of the GEMM; along K, the image of a convolution has its channels
  enum class Kind : uint8_t {
    contiguous,  // neighbours along the axis are neighbours in memory
    even,        // all along the axis are equally far apart
    multiple,    // the axis has a multiple of this many elements
  };
  Operand operand;
  Axis axis;
  Kind kind = Kind::contiguous;
  int64_t of = 1;  // Kind::multiple
  bool operator==(const Wish&) const = default;
};

struct Offer {
  std::string_view implementation;   // "cublaslt", "panels": shown in reports
  double cost = 0;
  double padding = 0;                // of a GEMM's work, the share that is lost in tiles that the rows of one batch do not fill
  bool takes_body = true;            // else the result is stored, and a separate step computes the body
  std::vector<Wish> wishes = {};     // GEMMs and depthwise convolutions
  // B must be packed like this by a separate step; only for a constant B [K, N] of static sizes. If the site's B is packed already: the packing that it reads.
  std::optional<Packing> packing = std::nullopt;
  // The kernel's choices at run time that can be timed for one set of sizes, by name ("algorithm"). RunKernel::tunables lists the choices.
  std::vector<std::string_view> tunables = {};
  // Empty: the site is a sketch, or a GEMM that is faster as a fused body that reduces over K.
  std::function<EmittedStep()> emit = {};
};
bool wishes(const Offer&, Wish::Operand, Wish::Axis, Wish::Kind = Wish::Kind::contiguous);
// The usual wishes.
inline constexpr Wish channels_innermost{Wish::Operand::a, Wish::Axis::k}, contiguous_rows{Wish::Operand::result, Wish::Axis::n},
    even_rows{Wish::Operand::result, Wish::Axis::m, Wish::Kind::even};

// What kept an implementation from making an offer.
enum class Obstacle : uint8_t {
  types,     // cannot be removed: use another implementation or a fused body
  a,
  b,
  c,      // the first, second or third operand: storing it row-major may help
  body,      // the body: splitting it off may help
  cost,      // cannot be removed: another offer is cheaper
};

struct Refusal {
  std::string_view implementation;
  Obstacle obstacle;
  std::string reason;
};

struct Offers {
  std::vector<Offer> offers;         // if costs are equal, the first is preferred
  std::vector<Refusal> refusals;
};

// Compiled device code.
struct DeviceCode {
  bool ptx = false;                  // true: PTX, else machine code
  int architecture = 0;
  std::vector<std::string> kernels;
  std::vector<std::byte> image;
};

// When results must be equal bit by bit.
enum class Deterministic : uint8_t {
  run,    // for equal inputs
  batch,  // for equal inputs, whatever else is in the batch
};

struct Settings {
  Deterministic deterministic = Deterministic::run;
  // Float32 GEMMs, or convolutions, may round their operands to TF32 (10 mantissa bits) if the target has it.
  bool tf32 = false, tf32_convolutions = false;
  // Offers that another one beats by little (is_near) keep the code of all their choices, so that timing can decide. Only for offers that take the whole body.
  bool rivals = false;
};

// True if the cost model cannot tell the two apart; then timing decides, if there is time for it.
inline bool is_near(double cost, double least) { return cost <= 2 * least; }

// One of some steps that could run side by side: it reads operands, then writes the last ones.
struct Concurrent {
  const EmittedStep* step;
  size_t operands, writes;
  std::vector<StridedLayout> layouts = {};  // of the operands, and their types; empty: unknown
  std::vector<ir::DType> dtypes = {};
};

// The compile-time half of a backend. All functions are pure. A backend is one line of run/backends.def.
struct Compiler {
  // Error (unsupported) if the target cannot do what the settings demand.
  void (*check)(const Target&, const Settings&);
  Offers (*offers)(const Site&, const Target&, const Settings&);
  std::vector<DeviceCode> (*compile)(std::span<const CodeUnit>, const Target&);
  // One step for independent steps that are alike: it reads what they read, step by step, then writes what they write. Null: the backend has none.
  EmittedStep (*join)(std::span<const Concurrent>) = nullptr;
  // How many rows a reduction should have so that all of the device works. 1: the device divides rows itself.
  int64_t reduced_rows = 1;
  // What a step costs beside its work, in additions that the device does in that time.
  int64_t step_cost = 0;
  // Adding up what each element of a result reads is faster than scattering.
  bool gathers = false;
  // The parts of complex results are best side by side in memory.
  bool parts_beside = false;
};
const Compiler& compiler_for(const Target&);

// Offer::padding of tiles of this many rows, none of which has rows of two batches. Infinite if the number of a batch's rows is unknown.
double padding_of(const Gemm&, double tile_rows);

// Adds an offer if the site is one of these kernels without a body. `code`: gives the step's device code, on backends that have any.
void offer_plain(const Site&, std::initializer_list<std::string_view> kernels, std::string_view implementation, Offers&, std::vector<CodeUnit> (*code)(const Plain&) = nullptr);

// The constants of a step with a registered kernel, except for the address of its code. Appends its sizes to `sizes`.
kernels::ExternalArgs external_args(const External&, std::vector<ir::Dim>& sizes);
// If the site is a registered kernel: adds an offer for its host function, or a refusal if it has none.
void offer_host_external(const Site&, Offers&);

// A map in the form that steps use: returns its strides, [axes][indices], and appends the extents of its indices and the offsets along its axes to
// `sizes`. nullopt if a stride is negative or too large.
std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap&, std::vector<ir::Dim>& sizes);

}  // namespace ingot::backend
