#include "backend/cuda/kernels/run/number_fields.h"

#include <algorithm>

namespace ingot::kernels {

namespace {

template <class S, class N, class K>
void list_numbers(S& s, N& numbers, K& known) {
  auto number = [&](auto& n) { s.all(n.kind, n.a, n.b); };
  s.list(numbers, number);
  s.list(known, [&](auto& k) {
    number(k.number);
    s.field(k.value);
  });
}

}  // namespace

void number_fields(FieldWriter& s, const std::vector<CudaNumber>& numbers, const std::vector<CudaKnown>& known) { list_numbers(s, numbers, known); }
void number_fields(FieldReader& s, std::vector<CudaNumber>& numbers, std::vector<CudaKnown>& known) { list_numbers(s, numbers, known); }

bool do_exist(const std::vector<CudaNumber>& numbers, const std::vector<CudaKnown>& known, size_t sizes, const std::vector<size_t>& ranks) {
  auto exists = [&](const CudaNumber& n) {
    if (n.kind == CudaNumber::size) return n.a < sizes;
    return n.kind <= CudaNumber::dim && n.a < ranks.size() && n.b < ranks[n.a];
  };
  return std::all_of(numbers.begin(), numbers.end(), exists) && std::all_of(known.begin(), known.end(), [&](const CudaKnown& k) { return exists(k.number); });
}

}  // namespace ingot::kernels
