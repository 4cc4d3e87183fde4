#include <algorithm>

#include "backend/reference/run/body.h"
#include "base/error.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::backend::reference {

namespace {

[[noreturn]] void refuse(const char* what) { fail(Code::format, "the operands of a step do not fit its body: {}", what); }

// Checks that guard arithmetic stays far from 64-bit overflow.
void check_guards(const Body& body, std::span<const int64_t> sizes) {
  for (const Instruction& i : body.code) {
    for (uint32_t s : i.lower) {
      if (sizes[s] < -kernels::max_guard_lower || sizes[s] > kernels::max_guard_lower) refuse("a guard begins too far away");
    }
    for (uint32_t s : i.step) {
      if (sizes[s] < 1 || sizes[s] > kernels::max_guard_step) refuse("a guarded load has an impossible step");
    }
  }
}

}  // namespace

Bound bind(const Body& body, std::span<const TensorRef> operands, std::span<const int64_t> sizes) {
  Bound b;
  b.body = &body;
  b.sizes.assign(sizes.begin(), sizes.end());
  const auto extents = sizes.last(body.rank());
  b.domain.assign(extents.begin(), extents.end());
  int64_t elements = 1;
  for (size_t a = 0; a < b.domain.size(); ++a) {
    const int64_t n = b.domain[a];
    if (n < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > kernels::max_domain_elements) refuse("its domain is impossible");
    (a < body.outer ? b.rows : b.length) *= n;
  }
  check_guards(body, sizes);
  const size_t loads = body.operands.size() - body.stores.size();
  for (size_t k = 0; k < operands.size(); ++k) {
    const TensorRef& t = operands[k];
    if (t.dtype != body.operands[k]) refuse("a type differs");
    if (t.rank != static_cast<int>(body.rank() + body.gathered[k])) refuse("a rank differs");
    std::vector<int64_t>& strides = b.strides.emplace_back(t.strides, t.strides + t.rank);
    const bool written = k >= loads;
    bool all = true, once = true;  // of the row axes
    for (size_t a = 0; a < body.rank(); ++a) {
      const bool whole = t.dims[a] == b.domain[a];
      if (!written && !body.plain[k]) continue;  // guarded loads are checked per element
      if (!whole && t.dims[a] != 1) refuse("a size differs from the domain's");
      if (!whole) strides[a] = 0;
      if (a >= body.outer) {
        all = all && whole;
        once = once && t.dims[a] == 1;
      } else if (written && !whole) {
        refuse("an element is written several times");
      }
    }
    if (written && !all && !once) refuse("a part of a row is written");
  }
  return b;
}

}  // namespace ingot::backend::reference
