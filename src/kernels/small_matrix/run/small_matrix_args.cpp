#include "kernels/small_matrix/run/small_matrix_args.h"

#include "base/error.h"
#include "ir/op.h"

namespace ingot::kernels {

size_t SmallMatrixArgs::operands() const {
  switch (kind) {
    case Kind::inverse:
    case Kind::cholesky:
    case Kind::solve_triangular:
    case Kind::qr: return 3;
    default: return 4;
  }
}

std::vector<std::byte> serialise(const SmallMatrixArgs& a) {
  return {static_cast<std::byte>(a.kind), std::byte{a.rows}, std::byte{a.columns}, std::byte{a.upper}, std::byte{a.unit}, std::byte{a.complete}};
}

SmallMatrixArgs parse_small_matrix(std::span<const std::byte> bytes) {
  using Kind = SmallMatrixArgs::Kind;
  auto wrong = []() { fail(Code::format, "a small_matrix step has wrong constants"); };
  if (bytes.size() != 6 || static_cast<uint8_t>(bytes[0]) > static_cast<uint8_t>(Kind::qr)) wrong();
  for (size_t i : {3, 4, 5}) {
    if (static_cast<uint8_t>(bytes[i]) > 1) wrong();
  }
  const SmallMatrixArgs a{static_cast<Kind>(bytes[0]), static_cast<uint8_t>(bytes[1]), static_cast<uint8_t>(bytes[2]),
                          bytes[3] == std::byte{1},    bytes[4] == std::byte{1},       bytes[5] == std::byte{1}};
  const bool any_form = a.kind == Kind::lu || a.kind == Kind::qr;
  auto fits = [](int64_t n) { return n >= 1 && n <= ir::max_matrix; };
  if (!fits(a.rows) || !fits(a.columns) || (!any_form && a.rows != a.columns)) wrong();
  return a;
}

}  // namespace ingot::kernels
