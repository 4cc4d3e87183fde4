// The language operator bodies are written in: an expression builds nodes of the canonical graph.
//
//   Value e = exp(x - amax(x, dim, keep));  return e / sum(e, dim, keep);
//
// Values are handles into the graph at hand. Operators promote as ATen does, with its three
// categories: tensors, 0-d tensors, and weak numbers. Origin and group of new nodes are the graph's current ones.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

class Handle;  // a value of a graph under construction
using Axis = int64_t;                // may be negative, as in ATen
using Axes = std::vector<int64_t>;
enum Keep : bool { drop = false, keep = true };

class Handle {
 public:
  Handle() = default;
  Handle(Graph* graph, ValueId id, bool weak = false) : graph_(graph), id_(id), weak_(weak) {}
  Graph& graph() const { return *graph_; }
  ValueId id() const { return id_; }
  const Type& type() const { return graph_->type(id_); }
  DType dtype() const { return type().dtype; }
  const Dims& dims() const { return type().dims; }
  Dim dim(Axis axis) const;            // negative axes count from the end; Error out of range
  int64_t rank() const { return type().rank(); }
  Axis axis(Axis a) const;             // normalised to 0..rank-1 (0-d: 0 and -1 are allowed); Error out of range
  Dim numel() const { return product(dims()); }
  // A number made into a 0-d value keeps being weak in promotion.
  bool weak() const { return weak_; }

 private:
  Graph* graph_ = nullptr;
  ValueId id_ = none_id;
  bool weak_ = false;
};

// An operand of an expression: a value, or a number that becomes a literal of the right dtype.
struct Operand {
  std::optional<Handle> value;
  Scalar number = 0;
  Operand(Handle v) : value(v) {}       // NOLINT
  Operand(Scalar s) : number(std::move(s)) {}  // NOLINT
  Operand(bool v) : number(v) {}        // NOLINT
  Operand(int v) : number(v) {}         // NOLINT
  Operand(int64_t v) : number(v) {}     // NOLINT
  Operand(double v) : number(v) {}      // NOLINT
  Operand(Dim v) : number(std::move(v)) {}  // NOLINT
};

// ---- promotion (torch.result_type over tensors, 0-d tensors and weak numbers)
DType result_type(std::span<const Operand> operands);
// int -> default float (f32) as torch's int-to-float promotion of division, exp, mean...
DType float_type(DType);
inline Handle to_float(Handle x);

// ---- a map primitive: promotes the operands to their common dtype (select: of the last two), broadcasts, adds the node
Handle map(Op op, std::vector<Operand> operands);
// the same, promoting integers and bools to float first (exp, div, sigmoid...)
Handle float_map(Op op, std::vector<Operand> operands);

Handle operator+(const Handle& a, const Operand& b);
Handle operator-(const Handle& a, const Operand& b);
Handle operator*(const Handle& a, const Operand& b);
Handle operator/(const Handle& a, const Operand& b);  // true division, integers promote to float
Handle operator<(const Handle& a, const Operand& b);
Handle operator<=(const Handle& a, const Operand& b);
Handle operator>(const Handle& a, const Operand& b);
Handle operator>=(const Handle& a, const Operand& b);
Handle operator&(const Handle& a, const Operand& b);
Handle operator|(const Handle& a, const Operand& b);
Handle operator^(const Handle& a, const Operand& b);
Handle operator-(const Handle& a);
Handle operator+(const Scalar& a, const Handle& b);
Handle operator-(const Scalar& a, const Handle& b);
Handle operator*(const Scalar& a, const Handle& b);
Handle operator/(const Scalar& a, const Handle& b);
Handle equal(const Handle& a, const Operand& b);
Handle not_equal(const Handle& a, const Operand& b);

// one function per unary float map: exp(x) ... gelu(x), promoting integers to float
// clang-format off
#define FLOAT_UNARY(name) inline Handle name(Handle x) { return float_map(Op::name, {x}); }
FLOAT_UNARY(exp) FLOAT_UNARY(exp2) FLOAT_UNARY(expm1) FLOAT_UNARY(log) FLOAT_UNARY(log2) FLOAT_UNARY(log10) FLOAT_UNARY(log1p)
FLOAT_UNARY(sqrt) FLOAT_UNARY(rsqrt) FLOAT_UNARY(sin) FLOAT_UNARY(cos) FLOAT_UNARY(tan) FLOAT_UNARY(asin) FLOAT_UNARY(acos)
FLOAT_UNARY(atan) FLOAT_UNARY(sinh) FLOAT_UNARY(cosh) FLOAT_UNARY(tanh) FLOAT_UNARY(asinh) FLOAT_UNARY(acosh) FLOAT_UNARY(atanh)
FLOAT_UNARY(erf) FLOAT_UNARY(erfc) FLOAT_UNARY(erfinv) FLOAT_UNARY(lgamma) FLOAT_UNARY(digamma) FLOAT_UNARY(sigmoid)
FLOAT_UNARY(gelu) FLOAT_UNARY(gelu_tanh) FLOAT_UNARY(silu) FLOAT_UNARY(softplus)
#undef FLOAT_UNARY
inline Handle abs(Handle x) { return map(Op::abs, {x}); }
// clang-format on
inline Handle relu(Handle x) { return map(Op::relu, {x}); }
inline Handle floor(Handle x) { return map(Op::floor, {x}); }
inline Handle ceil(Handle x) { return map(Op::ceil, {x}); }
inline Handle trunc(Handle x) { return map(Op::trunc, {x}); }
inline Handle round(Handle x) { return map(Op::round, {x}); }
inline Handle minimum(Handle a, Operand b) { return map(Op::min, {a, std::move(b)}); }
inline Handle maximum(Handle a, Operand b) { return map(Op::max, {a, std::move(b)}); }
inline Handle select(Handle condition, Operand a, Operand b) { return map(Op::select, {condition, std::move(a), std::move(b)}); }
Handle logical_not(Handle x);          // any dtype: x == 0
Handle to_bool(Handle x);              // x != 0
inline Handle square(Handle x) { return x * x; }
Handle clamp(Handle x, const std::optional<Operand>& lo, const std::optional<Operand>& hi);
Handle cast(Handle x, DType dtype);    // x itself when it has the dtype
Handle bitcast(Handle x, DType dtype); // a number's bits as one of another type of the same size; bools are bytes

// ---- leaves
Handle literal(Graph& g, Scalar value, DType dtype);
Handle full(Graph& g, Dims dims, Scalar value, DType dtype);
Handle index(Graph& g, Dims dims, Axis axis);         // i64
Handle iota(Graph& g, Dim n);                          // i64 [n]: 0, 1, ...

// ---- views
Handle view(Handle x, AffineMap map);                  // x itself when the map is the identity
Handle reshape(Handle x, Dims dims);                   // one -1 is allowed; Error when the element counts differ
Handle permute(Handle x, Axes order);
Handle transpose(Handle x, Axis a, Axis b);
Handle expand(Handle x, Dims dims);                    // -1 keeps
Handle unsqueeze(Handle x, Axis axis);
Handle squeeze(Handle x, Axis axis);                   // no change unless the size is 1
Dim from_front(const Dim& place, const Dim& size, std::span<const Symbol>);  // a place along an axis, from its end if it is negative, which may show at run time only
Handle slice(Handle x, Axis axis, std::optional<Dim> start, std::optional<Dim> end, int64_t step);  // Python's rules
Handle take(Handle x, Axis axis, Dim index);           // one index of an axis, which goes away (torch.select)
Handle pad(Handle x, const Dims& before, const Dims& after, Scalar fill);
Handle flip(Handle x, Axes axes);
Handle flatten(Handle x, Axis first, Axis last);
// Result with value written where map(i) points: slice_scatter and friends.
Handle update(Handle base, AffineMap map, Handle value);

// ---- kernels
Handle reduce(const char* kind, Handle x, Axes axes, Keep keep);      // axes empty = all
inline Handle sum(Handle x, Axes axes, Keep k = drop) { return reduce("sum", x, std::move(axes), k); }
inline Handle amax(Handle x, Axes axes, Keep k = drop) { return reduce("max", x, std::move(axes), k); }
inline Handle amin(Handle x, Axes axes, Keep k = drop) { return reduce("min", x, std::move(axes), k); }
Dim count(Handle x, const Axes& axes);                                // elements reduced over
Handle mean(Handle x, Axes axes, Keep k = drop);
Handle scan(const char* kind, Handle x, Axis axis);
Handle concat(std::vector<Handle> parts, Axis axis);                  // promotes; legacy empty 1-d operands are dropped
Handle gather(Handle table, std::vector<int64_t> axes, std::vector<Handle> indices, int64_t position, bool wrap);
Handle take_along(Handle table, Axis axis, Handle index);
Handle scatter(Handle base, std::vector<int64_t> axes, std::vector<Handle> indices, int64_t position, bool wrap, Handle updates, const char* kind);
Handle scatter_along(Handle base, Axis axis, Handle index, Handle updates, const char* kind);
Handle reduce_segments(Handle x, Handle order, Handle ends, const char* kind);  // rows of x in an order, combined segment by segment, see prim.def
std::pair<Handle, Handle> sort(Handle x, Axis axis, bool descending, bool stable);
std::pair<Handle, Handle> moments(Handle x, const Axes& axes);        // sums, sums of squared differences from the mean
std::pair<Handle, Handle> topk(Handle x, Dim k, Axis axis, bool largest, bool sorted);
Handle matmul(Handle a, Handle b, Attributes attributes = {});        // torch.matmul's rules for ranks 1 and up
Handle ragged_matmul(Handle a, Handle b, Handle row_ends);            // rows of a [M, K] times the matrix of their expert, of b [G, K, N]
Handle attention(Handle q, Handle k, Handle v, std::optional<Handle> mask, double scale, bool causal, std::optional<Handle> filled = std::nullopt);

// ---- loops
using Handles = std::vector<Handle>;
// The next carried values, from the number of the turn (a 0-d i64), the carried values and those that stay.
using Turn = std::function<Handles(const Handle& number, const Handles& carried, const Handles& others)>;
// Runs `turn` `count` times; the carried values after the last turn. Outside the graph of a turn only `others` can be read. A carried value that a turn gives back as a scatter or an
// update of itself is written in place.
Handles repeat(Graph& g, const Dim& count, Handles carried, const Handles& others, const Turn& turn);

// Small matrices, see prim.def; batch axes of two operands broadcast.
struct Lu {
  Handle factors, pivots, info;
};
Lu lu(Handle a);
std::pair<Handle, Handle> solve(Handle a, Handle b);  // x, info
std::pair<Handle, Handle> inverse(Handle a);  // inverse, info
struct Determinant {
  Handle value, sign, log;
};
Determinant determinant(Handle a);
std::pair<Handle, Handle> cholesky(Handle a);  // L, info
Handle solve_triangular(Handle a, Handle b, bool upper, bool unit);
std::pair<Handle, Handle> qr(Handle a, bool complete);

// Fourier transforms along the last axis, or several, see prim.def. The first: along how many.
int64_t fourier_axes(const Attributes&);
std::pair<Handle, Handle> fourier(Handle re, Handle im, int64_t axes = 1);
std::pair<Handle, Handle> fourier_of_real(Handle x, int64_t axes = 1);
Handle fourier_to_real(Handle re, Handle im, Dim length, int64_t axes = 1);

// Elements of an image at given places, see prim.def.
Handle grid_sample(Handle x, Handle grid, const char* mode, const char* outside, bool corners, bool channels_last = true);

// A size that is read from a 0-d i64 while the graph runs, at most `bound`: a new symbol, or the next of Graph::expected_sizes.
Dim read_size(Handle number, const std::optional<Dim>& bound);

inline Handle to_float(Handle x) { return cast(x, float_type(x.dtype())); }

}  // namespace ingot::ir
