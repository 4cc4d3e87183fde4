#include "backend/cpu/kernels/fused/run/parts.h"

#include <algorithm>
#include <bit>
#include <map>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

namespace {

// Per instruction: it depends on memory.
std::vector<uint8_t> reads_memory(const Program& p) {
  std::vector<uint8_t> reads(p.code.size(), 0);
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    for (uint32_t in : p.code[k].in) reads[k] |= reads[in];
    if (p.code[k].kind == Kind::load) reads[k] = 1;
  }
  return reads;
}

// True if the load must copy: its elements are strided along the blocks' axis, or of another type than blocks.
bool copies(const Bound& b, const Program& p, const ProgramInstruction& i) {
  if (i.kind != Kind::load) return false;
  const int64_t stride = b.strides[i.operand][b.domain.size() - 1];
  return !i.in.empty() || (stride != 0 && (stride != 1 || p.memory[i.operand] != dtype_of(i.cls)));
}

// The values that depend on the same axes.
struct Set {
  int64_t work = 0, kept = 0;  // operations for each element; values that are read by others
  bool reads = false;          // memory
};

// True if holding the set saves more than it costs. `n`: its elements; `again`: how often each is computed besides the first time.
bool pays(const Set& set, int64_t n, int64_t again) {
  if (again < 1 || set.kept == 0 || set.work * again < (set.reads ? 4 : 2) * set.kept) return false;
  return set.reads ? set.work * again * n >= fused_tuning::least_of_part : n <= fused_tuning::max_known_elements;
}

}  // namespace

bool is_read_beyond(const Program& p, const std::vector<Axes>& sets, uint32_t k) {
  for (const ProgramStore& s : p.stores) {
    if (s.reg == k) return true;
  }
  for (uint32_t u = k + 1; u < p.code.size(); ++u) {
    if (sets[u] != sets[k] && std::find(p.code[u].in.begin(), p.code[u].in.end(), k) != p.code[u].in.end()) return true;
  }
  return false;
}

Parts choose_parts(const Bound& b, const Program& p, const std::vector<Axes>& axes) {
  Parts parts;
  parts.of.assign(p.code.size(), in_no_part);
  const int64_t total = elements_of(b, in_no_part);
  if (total < fused_tuning::block_elements) return parts;  // nothing is gained within a block
  const std::vector<uint8_t> reads = reads_memory(p);
  std::map<Axes, Set> sets;
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    const bool computes = i.kind == Kind::map || i.kind == Kind::index || i.kind == Kind::place || copies(b, p, i);
    if (!computes || axes[k] == all_axes || axes[k] == 0) continue;
    Set& set = sets[axes[k]];
    set.work += i.kind == Kind::map && ir::cost_of(i.op) == ir::Cost::function ? 8 : 1;
    set.reads = set.reads || reads[k] != 0;
    set.kept += is_read_beyond(p, axes, k);
    parts.of[k] = axes[k];
  }
  int64_t bytes = 0;
  for (const auto& [of, set] : sets) {
    const int64_t n = elements_of(b, of), needed = n * set.kept * 8;
    if (!pays(set, n, total / n - 1) || bytes + needed > fused_tuning::max_held_bytes) continue;
    bytes += needed;
    parts.sets.push_back(of);
  }
  std::stable_sort(parts.sets.begin(), parts.sets.end(), [](Axes x, Axes y) { return std::popcount(x) < std::popcount(y); });
  for (Axes& of : parts.of) {
    if (std::find(parts.sets.begin(), parts.sets.end(), of) == parts.sets.end()) of = in_no_part;
  }
  return parts;
}

}  // namespace ingot::kernels
