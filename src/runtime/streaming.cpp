#include "runtime/streaming.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "base/error.h"

namespace ingot::runtime {

using plan::Buffer;

WeightReads::WeightReads(const std::vector<LoadedFunction>& functions, std::span<const size_t> weight_bytes, std::span<const size_t> derived_bytes, size_t alignment) {
  std::map<std::pair<bool, uint32_t>, uint32_t> numbers;
  for (const LoadedFunction& f : functions) {
    std::vector<std::vector<uint32_t>>& of_steps = steps.emplace_back();
    for (const plan::Step& s : f.program->steps) {
      std::vector<uint32_t>& reads = of_steps.emplace_back();
      for (const plan::OperandView& o : s.operands) {
        const Buffer& b = f.program->buffers[o.buffer];
        const bool derived = b.kind == Buffer::Kind::derived;
        if (b.kind != Buffer::Kind::weight && !derived) continue;
        const size_t size = derived ? derived_bytes[b.index] : weight_bytes[b.index];
        if (size == 0) continue;
        auto [found, fresh] = numbers.try_emplace({derived, b.index}, static_cast<uint32_t>(weights.size()));
        if (fresh) weights.push_back({derived, b.index, padded_bytes(size, alignment)});
        if (std::find(reads.begin(), reads.end(), found->second) == reads.end()) reads.push_back(found->second);
      }
    }
  }
}

size_t WeightReads::bytes() const {
  return std::accumulate(weights.begin(), weights.end(), size_t{0}, [](size_t sum, const ReadWeight& w) { return sum + w.bytes; });
}

namespace {

// The most bytes of streamed weights that one step reads.
size_t largest_step(const WeightReads& reads, const std::vector<bool>& streamed) {
  size_t largest = 0;
  for (const auto& of_steps : reads.steps) {
    for (const std::vector<uint32_t>& step : of_steps) {
      size_t bytes = 0;
      for (uint32_t w : step) bytes += streamed[w] ? reads.weights[w].bytes : 0;
      largest = std::max(largest, bytes);
    }
  }
  return largest;
}

}  // namespace

Split split_weights(const WeightReads& reads, size_t limit, size_t arena, size_t making) {
  const size_t count = reads.weights.size();
  auto bytes = [&](size_t w) { return reads.weights[w].bytes; };
  Split out;
  // Keeps the largest weights, one more in each turn, until the ring takes at most an eighth of the limit. If it never does, keeps the number for which the
  // ring is smallest.
  std::vector<size_t> by_size(count);
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](size_t x, size_t y) { return bytes(x) > bytes(y); });
  std::vector<bool> streamed(count, true);
  out.least = SIZE_MAX;
  bool found = false;
  for (size_t k = 0, kept = 0;; ++k) {
    const size_t ring = 2 * largest_step(reads, streamed), need = kept + std::max(ring + arena, making);
    out.least = std::min(out.least, need);
    const bool has_small_ring = found && out.ring_bytes <= limit / 8;
    if (need <= limit && !has_small_ring && (!found || ring < out.ring_bytes)) {
      found = true;
      out.streamed = streamed;
      out.ring_bytes = ring;
      out.resident_bytes = kept;
    }
    if (k == count) break;
    streamed[by_size[k]] = false;
    kept += bytes(by_size[k]);
  }
  if (!found) {
    throw Error(Code::out_of_memory, fmt::format("option memory_bytes is {}, but the weights need at least {}, with a ring for streamed ones and {} for a run", limit, out.least,
                                                 std::max(arena, making)))
        .fix(fmt::format("set memory_bytes to {} or more, or to 0 for no limit", out.least));
  }
  if (const size_t all = reads.bytes(); all <= limit && std::max(arena, making) <= limit - all) {
    out.streamed.assign(count, false);
    out.resident_bytes = all;
    out.ring_bytes = 0;
    return out;
  }
  size_t room = limit - out.resident_bytes - std::max(out.ring_bytes + arena, making);
  auto keep = [&](size_t w) {
    if (!out.streamed[w] || bytes(w) > room) return;
    out.streamed[w] = false;
    out.resident_bytes += bytes(w);
    room -= bytes(w);
  };
  constexpr size_t small = 64 << 10;
  for (size_t w = 0; w < count; ++w) {
    if (bytes(w) <= small) keep(w);
  }
  size_t rest = 0;
  for (size_t w = 0; w < count; ++w) rest += out.streamed[w] ? bytes(w) : 0;
  // Of the rest, the fraction `share` of the bytes fits. `owed` counts how far the kept bytes are behind that fraction; a weight stays if it is owed at least
  // half its bytes.
  const double share = rest > 0 ? static_cast<double>(room) / static_cast<double>(rest) : 0;
  double owed = 0;
  for (size_t w = 0; w < count; ++w) {
    if (!out.streamed[w]) continue;
    owed += share * static_cast<double>(bytes(w));
    if (2 * owed < static_cast<double>(bytes(w))) continue;
    keep(w);
    if (!out.streamed[w]) owed -= static_cast<double>(bytes(w));
  }
  for (size_t w = 0; w < count; ++w) keep(w);  // as many as still fit
  out.ring_bytes = 2 * largest_step(reads, out.streamed);
  out.streamed_bytes = reads.bytes() - out.resident_bytes;
  return out;
}

Streaming::OfFunction plan_loads(const WeightReads& reads, const Split& split, std::span<const std::vector<uint32_t>> steps) {
  Streaming::OfFunction out;
  // A weight in the ring. If the weight was copied to another place since, the old place belongs to nobody, but earlier steps may still read it.
  struct Slot {
    uint32_t weight;
    size_t begin, end;
    uint32_t last;  // the last step that reads it
  };
  constexpr uint32_t nobody = UINT32_MAX;
  std::deque<Slot> slots;
  size_t head = 0;
  uint32_t after = Streaming::none;
  auto slot_of = [&](uint32_t w) { return std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.weight == w; }); };
  auto bytes_of = [&](const std::vector<uint32_t>& list) {
    return std::accumulate(list.begin(), list.end(), size_t{0}, [&](size_t sum, uint32_t w) { return sum + reads.weights[w].bytes; });
  };
  for (uint32_t n = 0; n < steps.size(); ++n) {
    std::vector<uint32_t> wanted, missing;
    for (uint32_t w : steps[n]) {
      if (split.streamed[w]) wanted.push_back(w);
    }
    for (uint32_t w : wanted) {
      if (slot_of(w) == slots.end()) missing.push_back(w);
    }
    if (!missing.empty()) {
      size_t at = 0;
      auto place = [&] { at = head + bytes_of(missing) <= split.ring_bytes ? head : 0; };
      auto overlaps = [&](const Slot& s) { return s.begin < at + bytes_of(missing) && at < s.end; };
      place();
      // A weight that this step needs and that is in the ring must not be overwritten. If it would be, all weights of the step are copied to one place.
      if (std::any_of(wanted.begin(), wanted.end(), [&](uint32_t w) { return slot_of(w) != slots.end() && overlaps(*slot_of(w)); })) {
        missing = wanted;
        place();
        for (uint32_t w : wanted) {
          if (auto old = slot_of(w); old != slots.end()) old->weight = nobody;
        }
      }
      // Loads run in order, so each also waits for the steps that the loads before it wait for.
      for (const Slot& s : slots) {
        if (overlaps(s)) after = after == Streaming::none ? s.last : std::max(after, s.last);
      }
      slots.erase(std::remove_if(slots.begin(), slots.end(), overlaps), slots.end());
      Streaming::Load& load = out.loads.emplace_back(Streaming::Load{n, after, {}});
      for (uint32_t w : missing) {
        const size_t size = reads.weights[w].bytes;
        load.copies.push_back({w, nullptr, at, size});
        slots.push_back({w, at, at + size, n});
        at += size;
      }
      head = at;
    }
    for (uint32_t w : wanted) {
      const auto slot = slot_of(w);
      slot->last = n;
      out.places[{n, reads.weights[w].derived, reads.weights[w].index}] = slot->begin;
    }
  }
  return out;
}

}  // namespace ingot::runtime
