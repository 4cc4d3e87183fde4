// Fourier transforms, one row after another.
#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "ir/evaluate.h"
#include "ir/fourier.h"

namespace ingot::ir {

namespace {

#include "ir/fourier_of_numbers.inc"

}  // namespace

void evaluate_fourier(Op op, const std::vector<const Data*>& in, const std::vector<Data*>& out) {
  const FourierKind kind = op == Op::fourier ? FourierKind::pair : op == Op::fourier_of_real ? FourierKind::of_real : FourierKind::to_real;
  const int64_t n = kind == FourierKind::to_real ? out[0]->dims.back() : in[0]->dims.back();
  if (n < 1) fail(Code::invalid_input, "a Fourier transform has {} elements", n);
  const FourierTables<double> tables(kind, n);
  if (in[0]->dims.back() != tables.given() || in.back()->dims != in[0]->dims) fail(Code::invalid_input, "{}: the parts do not fit", name_of(op));
  std::vector<double> memory(static_cast<size_t>(4 * tables.room()));
  const int64_t rows = in[0]->numel() / tables.given();
  auto part = [](auto& of, size_t i, int64_t row, int64_t count) { return i < of.size() ? of[i]->f.data() + row * count : nullptr; };
  for (int64_t row = 0; row < rows; ++row) {
    fourier_of_row(tables, part(in, 0, row, tables.given()), part(in, 1, row, tables.given()), part(out, 0, row, tables.made()), part(out, 1, row, tables.made()), memory.data());
  }
}

}  // namespace ingot::ir
