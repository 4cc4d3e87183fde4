#include "runtime/weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "runtime/strided.h"

namespace ingot::runtime {

std::unique_ptr<Workers> make_workers(int threads) {
  if (auto shared = find_gomp_workers(threads)) return shared;
  return make_pool(threads);
}

Weights::Weights(std::shared_ptr<const plan::Plan> plan, int threads, Allocator& allocator, std::string_view device)
    : plan_(std::move(plan)), allocator_(allocator), placement_(place(*plan_, device)) {
  size_t t = placement_.target;
  const plan::Function& prepare = plan_->targets[t].prepare;
  prepare_ = load_function(prepare, prepare.programs[0], backend());
  for (const plan::Function& f : plan_->functions) functions_.push_back(load_function(f, f.programs[t], backend()));
  given_.sources.resize(plan_->weights.size(), nullptr);
  given_.copies.resize(plan_->weights.size());
  optional_ = plan::only_first_values(*plan_);
  // Values that the host gives come with set(), and prepare runs in commit().
  bool complete = std::none_of(plan_->weights.begin(), plan_->weights.end(), [](const plan::Weight& w) { return w.source == plan::Weight::Source::host && w.bytes > 0; });
  if (complete) set_ = make(given_, threads);
}

std::vector<bool> Weights::read_by(const plan::Program& p, std::vector<bool> also) {
  for (const plan::Buffer& b : p.buffers) {
    if (b.kind == plan::Buffer::Kind::weight) also[b.index] = true;
  }
  return also;
}

// Copies values to the device, those that share their bytes once. One block for all.
MemoryBlock Weights::upload(Set& set, const std::vector<bool>& which, backend::Stream& stream) const {
  size_t alignment = backend().alignment(), total = 0;
  std::map<const std::byte*, size_t> offsets;
  auto copied = [&](size_t i) { return which[i] && set.memory.weights[i] == nullptr && plan_->weights[i].bytes > 0 && !backend().can_access(set.values[i]); };
  for (size_t i = 0; i < which.size(); ++i) {
    if (!copied(i)) continue;
    auto [at, made] = offsets.try_emplace(set.values[i], total);
    // Views of one storage may differ in size; the first one's room is enough for those that are shorter.
    if (!made) continue;
    size_t bytes = plan_->weights[i].bytes;
    for (size_t k = i + 1; k < which.size(); ++k) {
      if (copied(k) && set.values[k] == set.values[i]) bytes = std::max<size_t>(bytes, plan_->weights[k].bytes);
    }
    total += (bytes + 64 + alignment - 1) / alignment * alignment;
  }
  MemoryBlock block = reserve(total, memory(), "the plan's weights");
  std::vector<bool> now(which.size());
  for (size_t i = 0; i < which.size(); ++i) now[i] = copied(i);
  for (size_t i = 0; i < which.size(); ++i) {
    if (now[i]) {
      std::byte* to = block.data() + offsets.at(set.values[i]);
      stream.copy(to, set.values[i], plan_->weights[i].bytes);
      set.memory.weights[i] = to;
    } else if (which[i] && set.memory.weights[i] == nullptr) {
      set.memory.weights[i] = set.values[i];
    }
  }
  return block;
}

std::shared_ptr<Weights::Set> Weights::make(const Given& given, int threads) const {
  auto set = std::make_shared<Set>();
  set->copies = given.copies;
  for (size_t i = 0; i < plan_->weights.size(); ++i) {
    const plan::Weight& w = plan_->weights[i];
    const std::byte* data = given.sources[i] != nullptr ? given.sources[i] : w.data;
    if (data == nullptr && w.bytes > 0 && !optional_[i]) {
      Error problem(Code::invalid_input, fmt::format("weight \"{}\" has no data: the plan was saved without it", w.name));
      throw problem.fix("give it with ingot_weights_set before committing");
    }
    set->values.push_back(data);
    set->memory.weight_bytes.push_back(w.bytes);
  }
  backend().synchronize();  // values in the caller's memory may be work of any stream
  std::unique_ptr<backend::Stream> stream = backend().new_stream();
  std::vector<bool> used(plan_->weights.size(), false);
  for (const LoadedFunction& f : functions_) used = read_by(*f.program, std::move(used));
  MemoryBlock passing;  // what prepare alone reads
  if (backend().memory() == nullptr) {
    set->memory.weights = set->values;
  } else {
    set->memory.weights.resize(plan_->weights.size(), nullptr);
    set->uploaded = upload(*set, used, *stream);
    passing = upload(*set, read_by(*prepare_.program, used), *stream);
  }
  // One block for all, so that huge pages back the small ones too.
  const std::vector<plan::Derived>& derived = plan_->targets[placement_.target].derived;
  size_t alignment = backend().alignment();
  auto padded = [&](size_t bytes) { return (bytes + 64 + alignment - 1) / alignment * alignment; };
  size_t total = 0;
  for (const plan::Derived& d : derived) total += padded(d.bytes);
  set->derived = reserve(total, memory(), "what is made of the plan's weights");
  size_t offset = 0;
  for (const plan::Derived& d : derived) {
    set->memory.derived.push_back(set->derived.data() + offset);
    set->memory.derived_bytes.push_back(d.bytes);
    offset += padded(d.bytes);
  }
  if (!prepare_.steps.empty()) {
    std::unique_ptr<Workers> workers = make_workers(threads);
    auto resolved = runtime::resolve(prepare_, *plan_, set->memory, {}, *workers);
    const char* what = "preparing the plan's weights";
    MemoryBlock arena = reserve(resolved->arena_bytes, memory(), what), scratch = reserve(resolved->scratch_bytes + 64, memory(), what);
    runtime::run(prepare_, *resolved, {}, arena.data(), scratch.data(), *workers, *stream);
    stream->wait();
  }
  stream->wait();
  // Pages of the file that nothing reads any more are not needed; they come back when asked for.
  bool everything_copied = backend().memory() != nullptr;
  for (size_t i = 0; i < used.size(); ++i) {
    if (plan_->file && (!prepare_.steps.empty() || everything_copied) && (!used[i] || everything_copied) && plan_->weights[i].data != nullptr) {
      plan_->file->drop({plan_->weights[i].data, plan_->weights[i].bytes});
    }
    if (everything_copied && !used[i]) set->memory.weights[i] = nullptr;
  }
  return set;
}

std::shared_ptr<const Weights::Set> Weights::current() const {
  std::lock_guard lock(mutex_);
  return set_;
}

void Weights::set(std::string_view name, const void* data, size_t bytes, bool copy, const int64_t* strides) {
  bool found = false;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < plan_->weights.size(); ++i) {
    const plan::Weight& w = plan_->weights[i];
    if (w.name != name && w.tied_to != name) continue;
    found = true;
    if (w.bytes != bytes) fail(Code::invalid_input, "weight \"{}\" has {} bytes, but {} are given", name, w.bytes, bytes);
    std::shared_ptr<const MemoryBlock> copied;
    const HostTensor value = value_of(w, data, strides);
    const bool lies = lies_in(w.order, value);
    if (!lies && backend().memory() != nullptr && backend().can_access(data)) throw lies_otherwise(fmt::format("the value given for weight \"{}\"", name), w.order);
    if ((copy || !lies) && bytes > 0) {
      copied = std::make_shared<const MemoryBlock>(bytes, allocator_);
      copy_strided(value, w.order, copied->data(), true);
    }
    given_.sources[i] = copied ? copied->data() : static_cast<const std::byte*>(data);
    given_.copies[i] = std::move(copied);
  }
  if (!found) fail(Code::invalid_input, "the plan has no weight \"{}\"", name);
}

void Weights::commit(int threads) {
  std::lock_guard alone(committing_);
  Given given;
  {
    std::lock_guard lock(mutex_);
    given = given_;
  }
  std::shared_ptr<Set> next = make(given, threads);
  std::shared_ptr<const Set> before;  // goes after the lock
  std::lock_guard lock(mutex_);
  next->version = ++version_;
  before = std::exchange(set_, std::move(next));
}

}  // namespace ingot::runtime
