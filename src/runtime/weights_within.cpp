// Weights under a limit of device memory: each has a block of its own, on the device or in pinned host memory.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/weights.h"

namespace ingot::runtime {

// The steps of prepare that compute one derived weight. While they run, everything that they read is on the device.
struct Weights::Making {
  PreparePart part;
  std::vector<bool> reads;  // per Plan::derived: computed before, and read by these steps
  size_t bytes = 0;         // device memory that they need
};

class Weights::Within {
 public:
  Within(const Weights& of, const Given& given, const Set* before, bool anew, const Limit& limit, int threads)
      : of_(of), reads_(of.loaded_->reads), before_(before), anew_(anew), limit_(limit), threads_(threads), set_(std::make_shared<Set>()) {
    of_.take_values(*set_, given);
  }
  std::shared_ptr<Set> make();

 private:
  size_t padded(size_t bytes) const { return of_.padded(bytes); }
  const plan::Plan& plan() const { return of_.plan(); }
  const std::vector<plan::Derived>& derived() const { return of_.derived(); }
  // True if the weight's value differs from the previous set's.
  bool is_new(size_t w) const { return reads_.weights[w].derived ? new_derived_[reads_.weights[w].index] : new_weights_[reads_.weights[w].index]; }
  void find_new();
  size_t on_device() const;
  std::shared_ptr<const MemoryBlock> room(size_t w) const;
  // Records where the weight is: its block (null: the caller's memory) and address, on the device or, if it is streamed, on the host.
  void assign(size_t w, std::shared_ptr<const MemoryBlock> block, const std::byte* at);
  void place(size_t w);
  void make_derived(size_t w);
  void plan_streaming();

  const Weights& of_;
  const WeightReads& reads_;
  const Set* before_;
  const bool anew_;
  Limit limit_;
  const int threads_;
  std::shared_ptr<Set> set_;
  std::vector<bool> new_weights_, new_derived_, placed_;
  std::shared_ptr<Streaming> streaming_ = std::make_shared<Streaming>();
  std::unique_ptr<backend::Stream> stream_;
  std::unique_ptr<Workers> workers_;
};

void Weights::Within::find_new() {
  const bool all = anew_ || before_ == nullptr || before_->kept.empty();
  new_weights_.assign(plan().weights.size(), all);
  for (size_t i = 0; i < new_weights_.size() && !all; ++i) new_weights_[i] = set_->changes[i] != before_->changes[i];
  PreparePart part;
  find_part(of_.loaded_->prepare, std::vector<bool>(derived().size(), all), new_weights_, part);
  new_derived_ = part.derived;
}

// Device memory that the weights already take: those that the caller holds there, and those of the previous set.
size_t Weights::Within::on_device() const {
  size_t bytes = 0;
  for (size_t w = 0; w < reads_.weights.size(); ++w) {
    const ReadWeight& r = reads_.weights[w];
    const bool borrowed = !r.derived && of_.stays(set_->values[r.index]);
    const bool ours = before_ != nullptr && (before_->kept.empty() || !before_->split.streamed[w]);
    if (borrowed || ours) bytes += r.bytes;
  }
  return bytes;
}

std::shared_ptr<const MemoryBlock> Weights::Within::room(size_t w) const {
  return std::make_shared<const MemoryBlock>(reserve(reads_.weights[w].bytes, set_->split.streamed[w] ? *of_.backend().pinned() : of_.memory(), "the plan's weights"));
}

void Weights::Within::assign(size_t w, std::shared_ptr<const MemoryBlock> block, const std::byte* at) {
  const ReadWeight& r = reads_.weights[w];
  if (set_->split.streamed[w]) {
    (r.derived ? streaming_->derived : streaming_->weights)[r.index] = at;
  } else if (r.derived) {
    set_->memory.derived[r.index] = const_cast<std::byte*>(at);
  } else {
    set_->memory.weights[r.index] = at;
  }
  set_->kept[w] = std::move(block);
  placed_[w] = true;
}

void Weights::Within::place(size_t w) {
  if (placed_[w]) return;
  const ReadWeight& r = reads_.weights[w];
  const bool streamed = set_->split.streamed[w];
  const std::byte* from = nullptr;
  size_t bytes = 0;
  if (!is_new(w)) {
    const Streaming* was = before_->memory.streaming.get();
    from = before_->split.streamed[w] ? (r.derived ? was->derived : was->weights)[r.index] : r.derived ? before_->memory.derived[r.index] : before_->memory.weights[r.index];
    if (before_->split.streamed[w] == streamed) return assign(w, before_->kept[w], from);
    bytes = r.derived ? derived()[r.index].bytes : plan().weights[r.index].bytes;
  } else if (!r.derived) {
    from = set_->values[r.index];
    bytes = plan().weights[r.index].bytes;
  } else {
    return make_derived(w);
  }
  const bool there = of_.backend().can_access(from);
  if (!streamed && !r.derived && from == set_->values[r.index] && of_.stays(from)) return assign(w, nullptr, from);
  auto block = room(w);
  if (there || !streamed) {
    stream_->copy(block->data(), from, bytes);
    stream_->wait();
  } else {
    std::memcpy(block->data(), from, bytes);
  }
  if (plan().file && !r.derived && from == plan().weights[r.index].data) plan().file->drop({from, bytes});
  assign(w, block, block->data());
}

// Computes one derived weight at a time, so that the memory for computing is needed once.
void Weights::Within::make_derived(size_t w) {
  const Making& making = *of_.loaded_->makings[reads_.weights[w].index];
  std::vector<std::shared_ptr<const MemoryBlock>> passing;
  auto pass = [&](size_t bytes) { return passing.emplace_back(std::make_shared<const MemoryBlock>(reserve(padded(bytes), of_.memory(), "preparing the plan's weights")))->data(); };
  Memory where = set_->memory;
  for (size_t i = 0; i < where.weights.size(); ++i) {
    if (!making.part.weights[i] || where.weights[i] != nullptr || plan().weights[i].bytes == 0) continue;
    if (of_.stays(set_->values[i])) {
      where.weights[i] = set_->values[i];
      continue;
    }
    std::byte* to = pass(plan().weights[i].bytes);
    stream_->copy(to, set_->values[i], plan().weights[i].bytes);
    where.weights[i] = to;
  }
  std::vector<size_t> made;  // the weights that these steps compute and that are kept
  for (size_t n = 0; n < reads_.weights.size(); ++n) {
    const ReadWeight& r = reads_.weights[n];
    if (!r.derived) continue;
    if (making.reads[r.index]) {
      place(n);
      where.derived[r.index] = set_->memory.derived[r.index];
      if (!set_->split.streamed[n]) continue;
      where.derived[r.index] = pass(derived()[r.index].bytes);
      stream_->copy(where.derived[r.index], streaming_->derived[r.index], derived()[r.index].bytes);
    }
    if (making.part.derived[r.index] && is_new(n) && !placed_[n]) made.push_back(n);
  }
  std::vector<std::shared_ptr<const MemoryBlock>> blocks(made.size());
  for (size_t k = 0; k < made.size(); ++k) {
    if (set_->split.streamed[made[k]]) continue;
    blocks[k] = room(made[k]);
    where.derived[reads_.weights[made[k]].index] = blocks[k]->data();
  }
  for (size_t d = 0; d < derived().size(); ++d) {
    const bool stays = std::any_of(made.begin(), made.end(), [&](size_t n) { return reads_.weights[n].index == d && !set_->split.streamed[n]; });
    if (making.part.derived[d] && !stays) where.derived[d] = pass(derived()[d].bytes);
  }
  if (workers_ == nullptr) workers_ = make_workers({threads_});
  of_.run_prepare(making.part.loaded, where, *workers_, *stream_);
  for (size_t k = 0; k < made.size(); ++k) {
    const uint32_t d = reads_.weights[made[k]].index;
    if (set_->split.streamed[made[k]]) {
      blocks[k] = room(made[k]);
      stream_->copy(blocks[k]->data(), where.derived[d], derived()[d].bytes);
      stream_->wait();
    }
    assign(made[k], blocks[k], blocks[k]->data());
  }
  if (!plan().file) return;
  for (size_t i = 0; i < plan().weights.size(); ++i) {
    const plan::Weight& weight = plan().weights[i];
    if (making.part.weights[i] && weight.data != nullptr) plan().file->drop({weight.data, weight.bytes});
  }
}

void Weights::Within::plan_streaming() {
  if (set_->split.streamed_bytes == 0) return;
  streaming_->ring_bytes = set_->split.ring_bytes;
  for (size_t f = 0; f < of_.loaded_->functions.size(); ++f) {
    Streaming::OfFunction made = plan_loads(reads_, set_->split, reads_.steps[f]);
    for (Streaming::Load& load : made.loads) {
      for (Streaming::Copy& c : load.copies) {
        const ReadWeight& r = reads_.weights[c.weight];
        c.from = (r.derived ? streaming_->derived : streaming_->weights)[r.index];
        c.bytes = r.derived ? derived()[r.index].bytes : plan().weights[r.index].bytes;
      }
    }
    streaming_->functions.emplace(of_.loaded_->functions[f].program, std::move(made));
  }
  set_->memory.streaming = streaming_;
}

std::shared_ptr<Weights::Set> Weights::Within::make() {
  find_new();
  if (limit_.automatic && limit_.bytes == 0) limit_.bytes = (of_.backend().free_memory() + on_device()) / 10 * 9;
  set_->limit = limit_.bytes;
  set_->arena = limit_.arena;
  set_->split = split_weights(reads_, limit_.bytes == 0 ? SIZE_MAX : limit_.bytes, limit_.arena, of_.largest_making());
  set_->kept.resize(reads_.weights.size());
  placed_.resize(reads_.weights.size());
  set_->memory.weights.resize(plan().weights.size(), nullptr);
  set_->memory.derived.resize(derived().size(), nullptr);
  for (const plan::Derived& d : derived()) set_->memory.derived_bytes.push_back(d.bytes);
  streaming_->weights.resize(plan().weights.size(), nullptr);
  streaming_->derived.resize(derived().size(), nullptr);
  of_.backend().synchronize();  // any stream may still write values in the caller's memory
  stream_ = of_.backend().new_stream();
  // Streamed weights first: they leave the device, so most of it is free while the others are computed.
  for (const bool streamed : {true, false}) {
    for (size_t w = 0; w < reads_.weights.size(); ++w) {
      if (set_->split.streamed[w] == streamed) place(w);
    }
  }
  stream_->wait();
  plan_streaming();
  set_->memory.number = new_number();
  return set_;
}

void Weights::find_makings() const {
  if (!loaded_->makings.empty()) return;
  const std::vector<ReadWeight>& all = loaded_->reads.weights;
  const std::unique_ptr<Workers> workers = make_workers({1});
  std::vector<std::shared_ptr<const Making>> makings(derived().size());
  for (const ReadWeight& w : all) {
    if (!w.derived) continue;
    auto made = std::make_unique<Making>();
    std::vector<bool> wanted(derived().size());
    wanted[w.index] = true;
    // It may read other derived weights. One that functions read too is placed before it; any other is computed together with it.
    auto kept = [&](uint32_t d) { return std::any_of(all.begin(), all.end(), [&](const ReadWeight& x) { return x.derived && x.index == d; }); };
    for (bool complete = false; !complete;) {
      complete = true;
      made->reads.assign(derived().size(), false);
      find_part(loaded_->prepare, wanted, std::vector<bool>(plan().weights.size()), made->part);
      for (uint32_t d = 0; d < derived().size(); ++d) {
        if (!made->part.reads[d]) continue;
        if (kept(d)) {
          made->reads[d] = true;
        } else {
          wanted[d] = true;
          complete = false;
        }
      }
    }
    made->bytes = runtime::usual_bytes(made->part.loaded, plan(), loaded_->weight_bytes, loaded_->derived_bytes, *workers);
    for (size_t i = 0; i < plan().weights.size(); ++i) made->bytes += made->part.weights[i] ? padded(plan().weights[i].bytes) : 0;
    for (size_t d = 0; d < derived().size(); ++d) made->bytes += made->reads[d] || made->part.derived[d] ? padded(derived()[d].bytes) : 0;
    makings[w.index] = std::move(made);
  }
  loaded_->makings = std::move(makings);
}

// Memory of a run at the usual sizes: the most of any function.
size_t Weights::usual_bytes() const {
  const std::unique_ptr<Workers> workers = make_workers({1});
  size_t largest = 0;
  for (const LoadedFunction& f : loaded_->functions) largest = std::max(largest, runtime::usual_bytes(f, plan(), loaded_->weight_bytes, loaded_->derived_bytes, *workers));
  return largest;
}

size_t Weights::largest_making() const {
  size_t largest = 0;
  for (const auto& m : loaded_->makings) largest = std::max(largest, m != nullptr ? m->bytes : 0);
  return largest;
}

std::shared_ptr<Weights::Set> Weights::make_within(const Given& given, const Set* before, bool anew, const Limit& limit, int threads) const {
  return Within(*this, given, before, anew, limit, threads).make();
}

Weights::Limit Weights::limit_for(int64_t limit) const {
  Limit out = limit_;
  if (limit < automatic) fail(Code::invalid_option, "option memory_bytes is {}, but it must be a number of bytes, 0 (no limit) or -1 (nine tenths of the free memory)", limit);
  if (backend().memory() == nullptr) {
    if (limit <= 0) return out;
    throw Error(Code::invalid_option, fmt::format("option memory_bytes is {}, but it limits the memory of a GPU, and these weights are on the CPU", limit))
        .fix("leave it out on the CPU: the weights of a file are mapped and take memory only as they are read");
  }
  if (!out.on && limit != 0) {
    out.arena = usual_bytes();
    find_makings();
    out.on = true;
  }
  out.bytes = static_cast<size_t>(std::max<int64_t>(limit, 0));
  out.automatic = limit == automatic;
  return out;
}

void Weights::set_limit(int64_t limit, int threads) {
  std::lock_guard alone(loaded_->committing);
  const Limit wanted = limit_for(limit);
  const bool same = wanted.on == limit_.on && wanted.bytes == limit_.bytes && !wanted.automatic;
  if (wanted.on && !same) place_anew(wanted, threads);
}

void Weights::make_room(size_t arena) {
  std::lock_guard alone(loaded_->committing);
  Limit wanted = limit_;
  if (wanted.bytes == 0 || wanted.arena >= arena) return;
  wanted.arena = arena;
  place_anew(wanted, 0);
}

// Places the values of the last commit anew. Values that were set since wait for the next commit.
void Weights::place_anew(const Limit& wanted, int threads) {
  std::shared_ptr<const Set> before = current();
  if (before != nullptr) return swap_in(make_within({before->values, before->copies, before->changes}, before.get(), false, wanted, threads), wanted);
  std::lock_guard lock(mutex_);
  limit_ = wanted;
}

Weights::Usage Weights::usage() const {
  Usage out;
  if (backend().memory() == nullptr) return out;
  std::lock_guard alone(loaded_->committing);
  std::shared_ptr<const Set> set = current();
  if (set != nullptr && !set->kept.empty()) return {set->split.resident_bytes, set->split.streamed_bytes, set->split.ring_bytes, set->arena, set->limit, set->split.least};
  find_makings();
  out.arena = usual_bytes();
  out.resident = set != nullptr ? loaded_->reads.bytes() : 0;
  out.least = split_weights(loaded_->reads, SIZE_MAX, out.arena, largest_making()).least;
  return out;
}

}  // namespace ingot::runtime
