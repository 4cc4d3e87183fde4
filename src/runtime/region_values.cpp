#include "runtime/region_values.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/run_blocks.h"

namespace ingot::runtime {

using plan::Region;

namespace {

// Per size: true if it depends on one of these symbols.
std::vector<bool> depends_on(const SizeProgram& sizes, const std::vector<bool>& symbols) {
  using Op = SizeInstruction::Op;
  std::vector<bool> out;
  for (const SizeInstruction& i : sizes.code) out.push_back(i.op == Op::symbol ? symbols[i.a] : i.op != Op::constant && (out[i.a] || out[i.b]));
  return out;
}

}  // namespace

OpenSizes::OpenSizes(const plan::Function& f) : function(f) {
  std::vector<bool> read(f.symbols.size(), false), endless = read;
  for (const Region& r : f.regions) {
    for (const Region::Read& x : r.reads) {
      read[x.symbol] = true;
      endless[x.symbol] = x.bound == UINT32_MAX;
    }
  }
  const std::vector<bool> of_data = depends_on(f.sizes, read), unbounded = depends_on(f.sizes, endless);
  for (const plan::Binding& b : f.bindings) {
    open.push_back(std::any_of(b.dims.begin(), b.dims.end(), [&](plan::SizeRef d) { return of_data[d]; }));
    bounded.push_back(std::none_of(b.dims.begin(), b.dims.end(), [&](plan::SizeRef d) { return unbounded[d]; }));
  }
}

void OpenSizes::bound(std::vector<int64_t>& symbols) const {
  std::vector<int64_t> sizes(function.sizes.code.size());
  for (const Region& r : function.regions) {
    for (const Region::Read& x : r.reads) symbols[x.symbol] = std::max<int64_t>(function.symbols[x.symbol].min, 1);
  }
  for (const Region& r : function.regions) {
    for (const Region::Read& x : r.reads) {
      if (x.bound == UINT32_MAX) continue;
      evaluate(function.sizes, symbols, sizes);
      symbols[x.symbol] = std::clamp(sizes[x.bound], function.symbols[x.symbol].min, function.symbols[x.symbol].max);
    }
  }
}

RegionValues::RegionValues(const plan::Function& f) : f_(f), open_(f), sizes_(f.sizes.code.size()), values_(f.bindings.size() + f.values.size()) { place_blocks(); }

// Gives each value the first block that no value with an overlapping life has.
void RegionValues::place_blocks() {
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Life> lives(values_.size());
  for (size_t n = 0; n < f_.regions.size(); ++n) {
    const Region& r = f_.regions[n];
    auto use = [&](uint32_t v) {
      if (v != UINT32_MAX) lives[v] = {std::min(lives[v].first, n), std::max(lives[v].last, n)};
    };
    use(r.condition);
    for (const plan::Call& c : r.calls) std::for_each(c.values.begin(), c.values.end(), use);
    for (const Region::Carried& c : r.carried) use(c.first), use(c.value), use(c.next);
    for (const Region::Read& x : r.reads) use(x.value);
  }
  // A loop swaps the two, so both live as long as the longer one.
  for (const Region& r : f_.regions) {
    for (const Region::Carried& c : r.carried) lives[c.next] = {std::min(lives[c.next].first, lives[c.value].first), std::max(lives[c.next].last, lives[c.value].last)};
  }
  for (const Region& r : f_.regions) {
    for (const Region::Carried& c : r.carried) lives[c.value] = lives[c.next];
  }
  std::vector<std::vector<Life>> taken;
  for (size_t v = f_.bindings.size(); v < values_.size(); ++v) {
    const Life life = lives[v];
    auto free = [&](const std::vector<Life>& block) {
      return std::none_of(block.begin(), block.end(), [&](const Life& l) { return l.first <= life.last && life.first <= l.last; });
    };
    auto block = std::find_if(taken.begin(), taken.end(), free);
    if (block == taken.end()) block = taken.emplace(taken.end());
    block->push_back(life);
    values_[v].block = static_cast<uint32_t>(block - taken.begin());
  }
  blocks_.resize(taken.size());
}

void RegionValues::begin(std::span<const int64_t> symbols) {
  symbols_.assign(symbols.begin(), symbols.end());
  evaluate(f_.sizes, symbols_, sizes_);
}

void RegionValues::set_symbol(uint32_t symbol, int64_t value) {
  symbols_[symbol] = value;
  evaluate(f_.sizes, symbols_, sizes_);
}

void RegionValues::set_dims(uint32_t v) {
  const std::vector<plan::SizeRef>& dims = is_binding(v) ? f_.bindings[v].dims : f_.values[v - f_.bindings.size()].dims;
  values_[v].dims.clear();
  for (plan::SizeRef d : dims) values_[v].dims.push_back(sizes_[d]);
}

size_t RegionValues::bytes_of(uint32_t v) const {
  size_t n = ir::size_of(is_binding(v) ? f_.bindings[v].dtype : f_.values[v - f_.bindings.size()].dtype);
  for (int64_t d : values_[v].dims) {
    if (d < 0 || __builtin_mul_overflow(n, static_cast<size_t>(d), &n)) fail(Code::invalid_input, "a tensor between the regions of \"{}\" is too large", f_.name);
  }
  return n;
}

void RegionValues::allocate(uint32_t v, Allocator& from) {
  MemoryBlock& block = blocks_[values_[v].block];
  grow(block, bytes_of(v), from, "a tensor between regions");
  values_[v].data = block.data();
}

void RegionValues::swap(uint32_t x, uint32_t y) {
  std::swap(blocks_[values_[x].block], blocks_[values_[y].block]);
  std::swap(values_[x].data, values_[y].data);
}

void RegionValues::free() noexcept {
  for (MemoryBlock& b : blocks_) b = MemoryBlock();
}

}  // namespace ingot::runtime
