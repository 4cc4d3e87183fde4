// The interface between compile and a backend: the offers for a site, and the reasons for having no others.
//
// A *site* is a kernel of a graph with everything that could be fused into it: the epilogue, maps and the prologue of an operand, the parts of a weight. An
// *offer* is one implementation of it. Compile asks twice: first for sketches, whose operands have sizes but no strides, to learn which values need no
// memory; then with all layouts.
#pragma once
#include <any>
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
#include "backend/tuning.h"
#include "base/machine.h"
#include "base/target.h"
#include "ir/encoding.h"
#include "ir/strided_layout.h"
#include "kernels/external/external.h"
#include "kernels/run/role.h"

namespace ingot::ir {
class Handle;
}  // namespace ingot::ir

namespace ingot::backend {

using ir::StridedLayout;
using kernels::Role;

// An operand of a step, as it is or would be in memory.
struct Operand {
  enum class Source : uint8_t {
    computed,  // by a step, or given by the caller
    constant,  // no step of the function writes it
    state,     // memory that the model writes and keeps
  };
  Role role;
  ir::DType type = ir::DType::f32;       // in memory
  StridedLayout layout;                  // of a body's operand: over the body's domain, followed by its gathered axes
  std::optional<ir::Encoding> encoding = std::nullopt;  // if its numbers are not of the kernel's type
  Source source = Source::computed;
  // True if it starts at a multiple of `alignment` bytes in each run, as the plan's own memory does. A caller's memory may start anywhere.
  bool aligned = false;
  static constexpr int64_t alignment = tuning::vector_bytes;
};

// How B is packed: from a matrix to one axis, by a step of the backend, or by primitives that prepare computes like any others.
struct Packing {
  // In primitives: of B, or of numbers [K, N], scales and maybe zeros [K / group, N]. The result has the bytes of the encoding.
  using Write = ir::Handle (*)(const ir::Encoding&, std::span<const ir::Handle>);
  std::string_view kernel;           // RunKernel::name of the step; operands B, packed; sizes K, N. With `write`: the kernel that reads it
  ir::Encoding encoding;             // of the packed B
  Write write = nullptr;
  bool operator==(const Packing&) const = default;
};

// What a GEMM does with its operands: C = A B with A [batch.., M, K], B [batch.., K, N]. Batch axes of A and B have the result's sizes, with stride 0 where they
// broadcast. The body is the epilogue: its accumulator is C.
//   b         one matrix, or parts side by side along N with equal strides, without batch axes
//   scale     [K / block, N], zero likewise: of a B with a block of its encoding along K. A scale per column is not an operand: the body multiplies the sum by it
//   row_ends  [experts]: B is [experts, K, N], and row m of A is multiplied by the first expert e with m < row_ends[e]
struct GemmAttributes {
  ir::DType type;                    // of A in memory, and of B
  std::optional<Packing> packed = std::nullopt;  // B is the output of this packing step
  size_t batch_rank = 0;
  // Implicit GEMM (a convolution): A is read through this map from the indices batch.., m (m_rank of them), k (the rest) to `a`, with 0 outside `a`.
  std::optional<ir::AffineMap> map = std::nullopt;
  size_t m_rank = 1;
  bool convolution = false;          // the settings have a separate precision for convolutions
  // Gated epilogue: the body has half as many columns as B, and reads column n of both halves (Instruction::half).
  bool gated = false;
  // A has one row, computed inside the kernel by this body and stored nowhere: the step has what the body loads in place of A. In a sketch there is no body yet.
  struct Prologue {
    const FusedBody* body = nullptr;
    std::vector<StridedLayout> operands = {};  // of the body: its loads, and the row
    StridedLayout row = {};                    // A
  };
  std::optional<Prologue> prologue = std::nullopt;
};

// A GEMM with its operands by name, as its kernels read it: gemm_of(site).
struct Gemm : GemmAttributes {
  StridedLayout a = {};
  std::vector<StridedLayout> b = {};
  bool constant = false;             // all of B is
  std::optional<ir::Encoding> encoding = std::nullopt;  // of B
  const Operand *scale = nullptr, *zero = nullptr, *row_ends = nullptr;
};

// A depthwise convolution: the result at the kept indices is the sum of A times B over the other indices. The body's accumulator is the sum.
struct DepthwiseAttributes {
  ir::DType type;                    // of the sum, and of B
  size_t kept = 0;
  ir::AffineMap map = {};            // from kept.., summed.. to `a`, with 0 outside `a`
};
// With its operands by name: depthwise_of(site).
struct DepthwiseConv : DepthwiseAttributes {
  ir::DType of_a = type;             // in memory; a half type is widened when read
  StridedLayout a = {}, b = {};      // b: over all indices, stride 0 where b does not depend on one
};

// softmax(scale Q K^T, masked) V with query [batch.., S, D], key [batch.., T, D], value [batch.., T, E]. The optional body is the mask: its accumulator is the
// scaled score, and its store has no memory.
//   block_table  [sequences, blocks of one]: the first batch axis is that of sequences, key is [blocks, batch.., rows of a block, D], value likewise, and key t of
//                a sequence is row t % rows of the block with number block_table[sequence, t / rows]; T is blocks of one * rows
//   filled       [sequences]: how many of the T keys a sequence has, from the first on; `causal` queries are those of its last keys
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
};

// A kernel that the user registered. Operands of the step, all row-major: its tensors in any order, then what it
// writes (kernels/external/run/external_args.h).
struct External {
  const kernels::External* kernel;
  std::vector<uint32_t> inputs;      // per tensor of the kernel: the operand of the step
  uint32_t results = 0;              // without the new values of tensors that it updates in place
};

struct EmittedStep;
// Independent steps of one kernel, as one step: it reads what they read, step by step, then writes what they write.
struct Concurrent {
  struct Part {
    const EmittedStep* step;
    size_t writes;
    std::vector<Operand> operands;
  };
  std::vector<Part> parts;
};

struct Site {
  std::variant<Fused, GemmAttributes, DepthwiseAttributes, Attention, Plain, External, Concurrent> kernel;
  const FusedBody* body = nullptr;
  std::vector<Operand> operands = {};        // of the step, in the order of the kernel's definition
  // What one implementation of the backend has found out about the site, for the others that are asked after it.
  mutable std::any read = {};
  std::span<const ir::Symbol> symbols = {};  // usual values and ranges of open sizes; a sketch has none
  // The usual and the largest value of a size; nullopt if the site does not say.
  std::optional<int64_t> usual(const ir::Dim&) const;
  std::optional<int64_t> largest(const ir::Dim&) const;

  std::span<const Operand> of(Role) const;   // all of this role
  const Operand* find(Role) const;           // the first one; null: there is none
  // Operand `k` of the body, and all of them.
  const StridedLayout& body_operand(size_t k) const;
  std::vector<StridedLayout> body_layouts() const;
  std::vector<StridedLayout> layouts() const;  // of all operands
};
// The site's operands by name. Null: it is of another kind.
std::shared_ptr<const Gemm> gemm_of(const Site&);
std::shared_ptr<const DepthwiseConv> depthwise_of(const Site&);
// The inverse: a sketch, or a site written by hand.
Site site_of(Gemm, const FusedBody* body = nullptr, const std::vector<StridedLayout>& body_layouts = {});
Site site_of(DepthwiseConv, const FusedBody* body = nullptr, const std::vector<StridedLayout>& body_layouts = {});
// The body's operands: what it loads, then what it stores.
void add_body(Site&, const std::vector<StridedLayout>& layouts);
// True if these operands of the step start at aligned addresses in each run.
bool are_aligned(const Site&, std::span<const size_t> operands);
// "gemm", "scan": used in messages.
std::string_view name_of(const Site&);
// False for operands of a sketch, which have no strides.
inline bool is_placed(const StridedLayout& x) { return x.strides.size() == x.dims.size(); }
inline bool is_sketch(const Site& site) { return !site.operands.empty() && !is_placed(site.operands[0].layout); }
inline StridedLayout unplaced(ir::Dims dims) { return {std::move(dims), {}, 0}; }

// Device code of a step as text. Units of equal name have equal text and are compiled once.
struct CodeUnit {
  // The last three are registered by the user. Source is compiled unchanged; code that the driver translates, or machine code, is used as it is: `kernels` then
  // has one name, NAME:ENTRY, where ENTRY is the name in the text.
  enum class From : uint8_t { ingot, user_source, user_portable, user_machine };
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
  // What the backend needs to make the step a part of others (Concurrent), since the site is gone by then; empty: it cannot be one.
  std::any as_part = {};
};

// How an operand should lie for an offer to be worth its cost. Compile stores or copies it so where that pays.
struct Wish {
  enum class Axis : uint8_t { m, n, k, none };  // of the GEMM; along K, the image of a convolution has its channels
  enum class Kind : uint8_t {
    contiguous,   // neighbours along the axis are neighbours in memory
    even,         // all along the axis have one stride
    multiple,     // the axis has a multiple of this many elements
    interleaved,  // of two outputs: the elements of one lie between those of the other, as the parts of complex numbers
    // Of an output. It may take the memory of an operand that its role says may be overwritten, and then
    own_memory,   // required: it has none of theirs, since not each element is read before the same one is written,
    reused_memory,  // or preferred: it has, since the caches hold that.
  };
  Role operand;
  Axis axis = Axis::none;
  Kind kind = Kind::contiguous;
  int64_t of = 1;  // Kind::multiple
  bool required = false;  // else preferred. An offer whose operands do not lie as it requires has no `emit`, and the cost that it has after the copy, with that of the copy
  bool operator==(const Wish&) const = default;
};

struct Offer {
  std::string_view implementation;   // "cublaslt", "panels": shown in reports
  double cost = 0;                   // nanoseconds, compared with the site's other offers
  bool takes_body = true;            // else the result is stored, and a separate step computes the body
  std::vector<Wish> wishes = {};
  // B must be packed like this by a separate step; only for a constant B [K, N] of static sizes. If the site's B is packed already: the packing that it reads.
  std::optional<Packing> packing = std::nullopt;
  // The kernel's choices at run time that can be timed for one set of sizes, by name ("algorithm"). RunKernel::tunables lists the choices.
  std::vector<std::string_view> tunables = {};
  // Empty: the site is a sketch, is a GEMM that is faster as a fused body, or needs copies first (Wish::required).
  std::function<EmittedStep()> emit = {};
};
bool wishes(const Offer&, Role, Wish::Axis, Wish::Kind = Wish::Kind::contiguous);
bool has(std::span<const Wish>, const Wish&);
bool requires_copy(const Offer&);  // it has a required wish
// The usual wishes.
inline constexpr Wish channels_innermost{Role::a, Wish::Axis::k}, contiguous_rows{Role::output, Wish::Axis::n}, even_rows{Role::output, Wish::Axis::m, Wish::Kind::even};
inline constexpr Wish copied_channels_innermost{Role::a, Wish::Axis::k, Wish::Kind::contiguous, 1, true};
inline constexpr Wish merged_rows{Role::a, Wish::Axis::m, Wish::Kind::even};  // the rows of all batches are those of one matrix
inline constexpr Wish interleaved_parts{Role::output, Wish::Axis::none, Wish::Kind::interleaved};
inline constexpr Wish own_memory{Role::output, Wish::Axis::none, Wish::Kind::own_memory}, reused_memory{Role::output, Wish::Axis::none, Wish::Kind::reused_memory};

// What kept an implementation from making an offer.
struct Obstacle {
  enum class Kind : uint8_t {
    types,    // cannot be removed: use another implementation or a fused body
    operand,  // storing it row-major may help
    body,     // splitting it off may help
    cost,     // cannot be removed: another offer is cheaper
  };
  Kind kind;
  Role operand = Role::output;
  bool operator==(const Obstacle&) const = default;
  static constexpr Obstacle of(Role role);
  static const Obstacle types, a, b, body, cost;
};
constexpr Obstacle Obstacle::of(Role role) { return {Kind::operand, role}; }
inline constexpr Obstacle Obstacle::types{Kind::types}, Obstacle::a = of(Role::a), Obstacle::b = of(Role::b), Obstacle::body{Kind::body}, Obstacle::cost{Kind::cost};

struct Refusal {
  std::string_view implementation;
  Obstacle obstacle;
  std::string reason;
};

struct Offers {
  std::vector<Offer> offers;         // if costs are equal, the first is preferred
  std::vector<Refusal> refusals;
  double pass = 0;                   // the cost of a separate step for a body
};

// Compiled device code.
struct DeviceCode {
  bool portable = false;             // the driver translates it for its device; else machine code
  int architecture = 0;
  std::vector<std::string> kernels;
  std::vector<std::byte> image;
};

// When results must be equal bit by bit.
enum class Deterministic : uint8_t {
  off,    // not even for equal inputs: sums may be made in the order in which threads come
  run,    // for equal inputs
  batch,  // for equal inputs, whatever else is in the batch
};

struct Settings {
  Deterministic deterministic = Deterministic::run;
  // Float32 GEMMs, or convolutions, may round their operands to TF32 (10 mantissa bits) if the target has it.
  bool tf32 = false, tf32_convolutions = false;
  // Offers that another one beats by little (is_near) keep the code of all their choices, so that timing can decide. Only for offers that take the whole body.
  bool rivals = false;
  Machine machine = machine_for(Target());  // the rates by which costs are estimated
};

// True if the cost model estimates the same for both; then timing decides, if there is time for it.
inline bool is_near(double cost, double least) { return cost <= 2 * least; }

// The compile-time half of a backend. All functions are pure. A backend is one line of run/backends.def.
struct Compiler {
  // Error (unsupported) if the target cannot do what the settings demand.
  void (*check)(const Target&, const Settings&);
  Offers (*offers)(const Site&, const Target&, const Settings&);
  std::vector<DeviceCode> (*compile)(std::span<const CodeUnit>, const Target&);
};
const Compiler& compiler_for(const Target&);

// Elements of the site's result at the usual values of open sizes; 0: the site has no body.
double results_of(const Site&);
// Nanoseconds of a separate step for the site's body: Offers::pass.
double pass_of(const Site&, const Machine&);

// Wishes for `merged_rows` if tiles of this many rows, none of which has rows of two batches, multiply for nothing for longer than a copy of A takes. `peak`: products of a nanosecond.
void wish_for_merged_rows(std::vector<Wish>&, const Site&, const Gemm&, double tile_rows, const Machine&, double peak);

// Adds an offer if the site is one of these kernels without a body. `code`: gives the step's device code, on backends that have any.
void offer_plain(const Site&, std::initializer_list<std::string_view> kernels, std::string_view implementation, Offers&,
                 std::vector<CodeUnit> (*code)(const Plain&, std::span<const Operand>) = nullptr);

// For kernels that transform along one axis: true, and refused, if the site is a Fourier transform along several. Compile writes it as transforms along one.
bool refuse_several_axes(const Site&, std::string_view implementation, Offers&);

// The constants of a step with a registered kernel, except for the address of its code. Appends its sizes to `sizes`.
kernels::ExternalArgs external_args(const External&, std::vector<ir::Dim>& sizes);
// If the site is a registered kernel: adds an offer for its host function, or a refusal if it has none.
void offer_host_external(const Site&, Offers&);

// A map in the form that steps use: returns its strides, [axes][indices], and appends the extents of its indices and the offsets along its axes to
// `sizes`. nullopt if a stride is negative or too large.
std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap&, std::vector<ir::Dim>& sizes);

}  // namespace ingot::backend
