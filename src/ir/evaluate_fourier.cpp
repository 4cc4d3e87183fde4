// Fourier transforms, one row after another.
#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "ir/compose.h"
#include "ir/evaluate.h"
#include "ir/fourier.h"

namespace ingot::ir {

namespace {

#include "ir/fourier_of_numbers.inc"

// The numbers of a complex tensor; a real one has one part.
using Parts = std::vector<std::vector<double>*>;

// Transforms of all rows along one axis, whose numbers are `stride` elements apart. Results may be the operands.
void along_axis(FourierKind kind, int64_t n, int64_t stride, const Parts& in, const Parts& out) {
  const FourierTables<double> tables(kind, n);
  std::vector<double> memory(static_cast<size_t>(4 * tables.room())), given(static_cast<size_t>(2 * tables.given())), made(static_cast<size_t>(2 * tables.made()));
  const auto rows = static_cast<int64_t>(in[0]->size()) / tables.given();
  auto place = [&](int64_t row, int64_t k, int64_t length) { return static_cast<size_t>((row / stride * length + k) * stride + row % stride); };
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < in.size(); ++i) {
      for (int64_t k = 0; k < tables.given(); ++k) given[i * static_cast<size_t>(tables.given()) + static_cast<size_t>(k)] = (*in[i])[place(row, k, tables.given())];
    }
    fourier_of_row(tables, given.data(), given.data() + tables.given(), made.data(), made.data() + tables.made(), memory.data());
    for (size_t i = 0; i < out.size(); ++i) {
      for (int64_t k = 0; k < tables.made(); ++k) (*out[i])[place(row, k, tables.made())] = made[i * static_cast<size_t>(tables.made()) + static_cast<size_t>(k)];
    }
  }
}

}  // namespace

void evaluate_fourier(const Node& node, const std::vector<const Data*>& in, const std::vector<Data*>& out) {
  const FourierKind kind = node.op == Op::fourier ? FourierKind::pair : node.op == Op::fourier_of_real ? FourierKind::of_real : FourierKind::to_real;
  const bool to_real = kind == FourierKind::to_real;
  const Index &dims = in[0]->dims, &made = out[0]->dims;
  const int64_t n = to_real ? made.back() : dims.back();
  const size_t rank = dims.size(), axes = static_cast<size_t>(fourier_axes(node.attributes));
  for (size_t d = rank - axes; d < rank; ++d) {
    if (const int64_t length = d + 1 < rank ? dims[d] : n; length < 1) fail(Code::invalid_input, "a Fourier transform has {} elements", length);
  }
  if (dims.back() != (to_real ? n / 2 + 1 : n) || in.back()->dims != dims) fail(Code::invalid_input, "{}: the parts do not fit", name_of(node.op));
  std::vector<std::vector<double>> given;
  Parts from, to;
  for (const Data* d : in) given.push_back(d->f);
  for (auto& part : given) from.push_back(&part);
  for (Data* d : out) to.push_back(&d->f);
  auto along_others = [&](const Index& sizes, const Parts& parts) {
    int64_t stride = sizes.back();
    for (size_t d = rank - 1; d-- > rank - axes;) {
      along_axis(FourierKind::pair, sizes[d], stride, parts, parts);
      stride *= sizes[d];
    }
  };
  // An inverse transform has its parts swapped.
  if (to_real) along_others(dims, {from[1], from[0]});
  along_axis(kind, n, 1, from, to);
  if (!to_real) along_others(made, to);
}

}  // namespace ingot::ir
