#include "kernels/external/run/external_args.h"

#include "base/fields.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t start = 0x31747865;  // "ext1"

// A path may be longer than texts of other steps.
template <class Stream, class T>
void text(Stream& s, T& of) {
  if constexpr (std::is_const_v<T>) {
    s.list(std::vector<char>(of.begin(), of.end()), [&](char c) { s.field(c); });
  } else {
    std::vector<char> letters;
    s.list(letters, [&](char& c) { s.field(c); });
    of.assign(letters.begin(), letters.end());
  }
}

constexpr auto fields = [](auto& s, auto& a) {
  text(s, a.name);
  s.list(a.inputs, [&](auto& x) { s.field(x); });
  s.list(a.written, [&](auto& x) { s.field(x); });
  s.field(a.results);
  s.list(a.numbers, [&](auto& n) { s.all(n.kind, n.integer, n.real); });
  text(s, a.host.library);
  text(s, a.host.symbol);
  text(s, a.host.sha256);
  text(s, a.entry);
  s.all(a.block[0], a.block[1], a.block[2], a.number_bytes);
};

}  // namespace

std::vector<std::byte> serialise(const ExternalArgs& a) { return to_bytes(start, a, fields); }

ExternalArgs parse_external(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto a = from_bytes<ExternalArgs>(bytes, start, "the constants of an external kernel", fields);
  bool fits = a.operands() == operands && a.written.size() + a.results > 0 && (a.number_bytes == 4 || a.number_bytes == 8);
  for (uint32_t k : a.inputs) fits = fits && k < a.inputs.size();
  for (uint32_t k : a.written) fits = fits && k < a.inputs.size();
  for (const ExternalNumber& n : a.numbers) {
    fits = fits && n.kind <= ExternalNumber::Kind::size && (n.kind != ExternalNumber::Kind::size || (n.integer >= 0 && static_cast<size_t>(n.integer) < sizes));
  }
  for (uint32_t n : a.block) fits = fits && n > 0 && n <= 1024;
  if (!fits) fail(Code::format, "the constants of external kernel {} do not fit its step", a.name);
  return a;
}

void check_external(const Call& call, const ExternalArgs& a) {
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const TensorRef& t = call.operands[k];
    int64_t step = 1;
    for (int d = t.rank; d-- > 0 && numel(t) > 0;) {
      if (t.dims[d] != 1 && t.strides[d] != step) fail(Code::format, "operand {} of external kernel {} is not row-major", k, a.name);
      step *= t.dims[d];
    }
  }
  for (size_t k = 0; k < a.written.size(); ++k) {
    const TensorRef &before = call.operands[a.inputs[a.written[k]]], &after = call.operands[a.inputs.size() + k];
    bool same = before.dtype == after.dtype && before.rank == after.rank;
    for (int d = 0; same && d < before.rank; ++d) same = before.dims[d] == after.dims[d];
    if (!same) fail(Code::format, "external kernel {} writes an operand whose new value is of another shape", a.name);
  }
}

bool is_empty(const Call& call, const ExternalArgs& a) {
  for (size_t k = a.inputs.size(); k < call.operands.size(); ++k) {
    if (numel(call.operands[k]) != 0) return false;
  }
  return true;
}

}  // namespace ingot::kernels
