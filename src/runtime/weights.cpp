#include "runtime/weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "runtime/prepared.h"
#include "runtime/strided.h"

namespace ingot::runtime {

Weights::Weights(std::shared_ptr<const plan::Plan> of, int threads, Allocator& allocator, std::string_view device, int64_t limit)
    : loaded_(std::make_shared<Loaded>()), allocator_(allocator) {
  loaded_->plan = std::move(of);
  loaded_->placement = place(plan(), device);
  const size_t t = loaded_->placement.target;
  const plan::Function& prepare = plan().targets[t].prepare;
  loaded_->prepare = load_function(plan(), prepare, prepare.programs[0], backend());
  for (const plan::Function& f : plan().functions) loaded_->functions.push_back(load_function(plan(), f, f.programs[t], backend()));
  given_.sources.resize(plan().weights.size(), nullptr);
  given_.copies.resize(plan().weights.size());
  given_.changes.resize(plan().weights.size());
  loaded_->read.resize(plan().weights.size());
  for (const LoadedFunction& f : loaded_->functions) {
    for (const plan::Buffer& b : f.program->buffers) {
      if (b.kind == plan::Buffer::Kind::weight) loaded_->read[b.index] = true;
    }
  }
  loaded_->optional = plan::only_first_values(plan());
  for (const plan::Weight& w : plan().weights) loaded_->weight_bytes.push_back(w.bytes);
  for (const plan::Derived& d : derived()) loaded_->derived_bytes.push_back(d.bytes);
  loaded_->reads = WeightReads(loaded_->functions, loaded_->weight_bytes, loaded_->derived_bytes, backend().alignment());
  limit_ = limit_for(limit);
  // The host gives the values by set(), and commit() runs prepare.
  bool complete = std::none_of(plan().weights.begin(), plan().weights.end(), [](const plan::Weight& w) { return w.source == plan::Weight::Source::host && w.bytes > 0; });
  if (complete) swap_in(limit_.on ? make_within(given_, nullptr, true, limit_, threads) : make(given_, nullptr, threads), limit_);
}

std::shared_ptr<Weights> Weights::fork() const {
  std::shared_ptr<Weights> made(new Weights(loaded_, allocator_));
  std::lock_guard lock(mutex_);
  made->given_ = set_ != nullptr ? Given{set_->values, set_->copies, set_->changes} : given_;
  made->changes_ = changes_;
  made->limit_ = limit_;
  if (set_ != nullptr) made->swap_in(set_, limit_);
  return made;
}

void Weights::swap_in(std::shared_ptr<const Set> next, const Limit& limit) {
  std::lock_guard lock(mutex_);
  limit_ = limit;
  if (limit_.on) limit_.bytes = next->limit;
  set_.swap(next);
  commits_.fetch_add(1, std::memory_order_release);
}

// Copies values to the device in one block. Weights that share bytes are copied once.
std::shared_ptr<const MemoryBlock> Weights::upload(Set& set, const std::vector<bool>& which, backend::Stream& stream) const {
  size_t total = 0;
  std::map<const std::byte*, size_t> offsets;
  auto copied = [&](size_t i) { return which[i] && set.memory.weights[i] == nullptr && plan().weights[i].bytes > 0 && !stays(set.values[i]); };
  for (size_t i = 0; i < which.size(); ++i) {
    if (!copied(i)) continue;
    auto [at, made] = offsets.try_emplace(set.values[i], total);
    // Weights that share an address may have different lengths: there is room for the longest.
    if (!made) continue;
    size_t bytes = plan().weights[i].bytes;
    for (size_t k = i + 1; k < which.size(); ++k) {
      if (copied(k) && set.values[k] == set.values[i]) bytes = std::max<size_t>(bytes, plan().weights[k].bytes);
    }
    total += padded(bytes);
  }
  auto block = std::make_shared<const MemoryBlock>(reserve(total, memory(), "the plan's weights"));
  std::vector<bool> now(which.size());
  for (size_t i = 0; i < which.size(); ++i) now[i] = copied(i);
  for (size_t i = 0; i < which.size(); ++i) {
    if (now[i]) {
      std::byte* to = block->data() + offsets.at(set.values[i]);
      stream.copy(to, set.values[i], plan().weights[i].bytes);
      set.memory.weights[i] = to;
    } else if (which[i] && set.memory.weights[i] == nullptr) {
      set.memory.weights[i] = set.values[i];
    }
  }
  return block;
}

void Weights::take_values(Set& set, const Given& given) const {
  set.copies = given.copies;
  set.changes = given.changes;
  for (size_t i = 0; i < plan().weights.size(); ++i) {
    const plan::Weight& w = plan().weights[i];
    const std::byte* data = given.sources[i] != nullptr ? given.sources[i] : w.data;
    if (data == nullptr && w.bytes > 0 && !loaded_->optional[i]) {
      Error problem(Code::invalid_input, fmt::format("weight \"{}\" has no data: the plan was saved without it", w.name));
      throw problem.fix("give it with ingot_weights_set before committing");
    }
    set.values.push_back(data);
    set.memory.weight_bytes.push_back(w.bytes);
  }
}

// Allocates memory for what is recomputed; the rest is shared with the previous set.
void Weights::place_derived(Set& set, const Set* before, const Change& change) const {
  const char* what = "the prepared weights of the plan";
  const size_t count = derived().size();
  for (const plan::Derived& d : derived()) set.memory.derived_bytes.push_back(d.bytes);
  if (change.new_home) {
    set.home = std::make_shared<Home>();
    size_t total = 0;
    for (size_t i = 0; i < count; ++i) {
      set.home->offsets.push_back(total);
      total += padded(derived()[i].bytes);
    }
    set.home->block = reserve(total, memory(), what);
    set.home->who.resize(count);
  } else {
    set.home = before->home;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!change.part.derived[i]) {
      set.derived.push_back(before->derived[i]);
      set.memory.derived.push_back(before->memory.derived[i]);
    } else if (change.new_home || change.home_is_free[i]) {
      std::byte* at = set.home->block.data() + set.home->offsets[i];
      set.derived.push_back(std::make_shared<const std::shared_ptr<Home>>(set.home));
      set.home->who[i] = set.derived.back();
      set.memory.derived.push_back(at);
    } else {
      auto away = std::make_shared<const MemoryBlock>(reserve(padded(derived()[i].bytes), memory(), what));
      set.memory.derived.push_back(away->data());
      set.derived.push_back(std::move(away));
    }
  }
}

// Of what was prepared now, takes the values that are in memory already, and gives back the room of its own ones.
void Weights::share_equal(Set& set, const Change& change) const {
  const size_t count = derived().size();
  std::vector<size_t> own;  // large ones that are not there yet
  std::vector<bool> there(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = derived()[i].bytes;
    if (!change.part.derived[i] || bytes < Prepared::least_bytes) continue;
    if (Prepared::Value found = Prepared::all().find(set.memory.derived[i], bytes, memory()); found.owner != nullptr) {
      set.derived[i] = std::move(found.owner);
      set.memory.derived[i] = found.data;
      there[i] = true;
    } else {
      own.push_back(i);
    }
  }
  if (change.new_home && std::find(there.begin(), there.end(), true) != there.end()) {
    auto home = std::make_shared<Home>();
    size_t total = 0;
    for (size_t i = 0; i < count; ++i) {
      home->offsets.push_back(there[i] ? Home::nowhere : total);
      if (!there[i]) total += padded(derived()[i].bytes);
    }
    home->block = reserve(total, memory(), "the prepared weights of the plan");
    home->who.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (there[i]) continue;
      std::byte* at = home->block.data() + home->offsets[i];
      if (derived()[i].bytes > 0) std::memcpy(at, set.memory.derived[i], derived()[i].bytes);
      set.derived[i] = std::make_shared<const std::shared_ptr<Home>>(home);
      home->who[i] = set.derived[i];
      set.memory.derived[i] = at;
    }
    set.home = std::move(home);
  }
  for (size_t i : own) Prepared::all().add({set.derived[i], set.memory.derived[i]}, derived()[i].bytes, memory());
}

void Weights::run_prepare(const LoadedFunction& part, const Memory& where, Workers& workers, backend::Stream& stream) const {
  auto resolved = runtime::resolve(part, plan(), where, {}, workers);
  const char* what = "preparing the plan's weights";
  MemoryBlock arena = reserve(resolved->arena_bytes, memory(), what), scratch = reserve(resolved->scratch_bytes + 64, memory(), what);
  runtime::run(part, *resolved, {}, {arena.data(), scratch.data()}, workers, stream);
  stream.wait();
}

// Drops pages of the file that nothing reads any more; the system reads them again on access.
void Weights::drop_pages(const Change& change) const {
  const bool copied = backend().memory() != nullptr;
  for (size_t i = 0; i < loaded_->read.size(); ++i) {
    const plan::Weight& w = plan().weights[i];
    const bool read = change.part.weights[i] || (copied && loaded_->read[i] && change.weights[i]);
    if (plan().file && read && (!loaded_->read[i] || copied) && w.data != nullptr) plan().file->drop({w.data, w.bytes});
  }
}

// Copies to the device what functions read there.
void Weights::place_weights(Set& set, const Set* before, const Change& change, backend::Stream& stream) const {
  set.uploaded.resize(change.weights.size());
  if (backend().memory() == nullptr) {
    set.memory.weights = set.values;
    return;
  }
  set.memory.weights.resize(change.weights.size(), nullptr);
  std::vector<bool> anew(change.weights.size());
  for (size_t i = 0; i < anew.size(); ++i) {
    anew[i] = loaded_->read[i] && change.weights[i];
    if (anew[i] || before == nullptr) continue;
    set.memory.weights[i] = before->memory.weights[i];
    set.uploaded[i] = before->uploaded[i];
  }
  auto block = upload(set, anew, stream);
  for (size_t i = 0; i < anew.size(); ++i) {
    if (anew[i]) set.uploaded[i] = block;
  }
}

// Makes the derived tensors of `change`. What only prepare reads is on a device for some of them at a time.
void Weights::prepare(Set& set, const Change& change, Workers& workers, backend::Stream& stream) const {
  if (backend().memory() == nullptr) return run_prepare(change.part.loaded, set.memory, workers, stream);
  constexpr size_t together = size_t{256} << 20;  // bytes of derived tensors
  const std::vector<bool> unchanged(plan().weights.size());
  std::vector<bool> missing = change.part.derived;
  for (size_t next = 0; next < missing.size();) {
    std::vector<bool> now(missing.size());
    for (size_t bytes = 0; next < missing.size() && bytes < together; ++next) {
      now[next] = missing[next];
      if (missing[next]) bytes += derived()[next].bytes;
    }
    PreparePart part;
    for (bool complete = false; !complete;) {
      complete = true;
      find_part(loaded_->prepare, now, unchanged, part);
      for (size_t d = 0; d < missing.size(); ++d) {
        if (missing[d] && part.reads[d]) now[d] = true, complete = false;
      }
    }
    if (part.loaded.steps.empty()) continue;
    const std::shared_ptr<const MemoryBlock> passing = upload(set, part.weights, stream);
    run_prepare(part.loaded, set.memory, workers, stream);
    for (size_t i = 0; i < missing.size(); ++i) missing[i] = missing[i] && !part.derived[i];
    for (size_t i = 0; i < loaded_->read.size(); ++i) {
      if (!loaded_->read[i]) set.memory.weights[i] = nullptr;
    }
  }
}

// Finds the changed weights and what depends on them. False if everything is to be recomputed: if nothing was set, or if at least half
// depends on it, unless a fork may share the rest.
bool Weights::find_change(const Given& given, const Set& before, Change& change) const {
  for (size_t i = 0; i < given.changes.size(); ++i) change.weights.push_back(given.changes[i] != before.changes[i]);
  if (std::find(change.weights.begin(), change.weights.end(), true) == change.weights.end()) return false;
  find_part(loaded_->prepare, std::vector<bool>(derived().size()), change.weights, change.part);
  size_t made = 0, all = 0;
  for (size_t i = 0; i < derived().size(); ++i) {
    all += derived()[i].bytes;
    made += change.part.derived[i] ? derived()[i].bytes : 0;
    change.home_is_free.push_back(before.home->offsets[i] != Home::nowhere && before.home->who[i].expired());
  }
  change.new_home = made == all && all > 0;
  const bool alone = loaded_.use_count() == 1;
  return 2 * made <= all || !alone;
}

std::shared_ptr<Weights::Set> Weights::make(const Given& given, const Set* before, int threads) const {
  auto set = std::make_shared<Set>();
  take_values(*set, given);
  auto change = std::make_unique<Change>();
  const bool whole = before == nullptr || !find_change(given, *before, *change);
  if (whole) {
    change = std::make_unique<Change>();
    change->weights.assign(given.changes.size(), true);
    change->new_home = true;
    find_part(loaded_->prepare, std::vector<bool>(derived().size(), true), change->weights, change->part);
  }
  backend().synchronize();  // the caller's values may be written by any stream, and a stream may still read memory that was freed
  std::unique_ptr<backend::Stream> stream = backend().new_stream();
  place_weights(*set, whole ? nullptr : before, *change, *stream);
  place_derived(*set, before, *change);
  if (!change->part.loaded.steps.empty()) prepare(*set, *change, *make_workers({threads}), *stream);
  stream->wait();
  if (backend().memory() == nullptr) share_equal(*set, *change);
  drop_pages(*change);
  const bool same = before != nullptr && set->memory.weights == before->memory.weights && set->memory.derived == before->memory.derived;
  set->memory.number = same ? before->memory.number : new_number();
  return set;
}

uint64_t Weights::new_number() {
  static std::atomic<uint64_t> tables{0};
  return ++tables;
}

std::shared_ptr<const Weights::Set> Weights::current() const {
  std::lock_guard lock(mutex_);
  return set_;
}

void Weights::set(std::string_view name, const void* data, size_t bytes, bool copy, const int64_t* strides) {
  bool found = false;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < plan().weights.size(); ++i) {
    const plan::Weight& w = plan().weights[i];
    if (!w.is_named(name)) continue;
    found = true;
    if (w.bytes != bytes) fail(Code::invalid_input, "weight \"{}\" has {} bytes, but {} are given", name, w.bytes, bytes);
    std::shared_ptr<const MemoryBlock> copied;
    const HostTensor value = value_of(w, data, strides);
    const bool in_order = is_dense_in(w.order, value);
    if (!in_order && backend().memory() != nullptr && backend().can_access(data)) throw wrong_order(fmt::format("the value given for weight \"{}\"", name), w.order);
    if ((copy || !in_order) && bytes > 0) {
      copied = std::make_shared<const MemoryBlock>(bytes, allocator_);
      copy_strided(value, w.order, copied->data(), true);
    }
    given_.sources[i] = copied ? copied->data() : static_cast<const std::byte*>(data);
    given_.copies[i] = std::move(copied);
    given_.changes[i] = ++changes_;
  }
  if (!found) fail(Code::invalid_input, "the plan has no weight \"{}\"", name);
}

void Weights::commit(int threads) {
  std::lock_guard alone(loaded_->committing);
  Given given;
  Limit limit;
  {
    std::lock_guard lock(mutex_);
    given = given_;
    limit = limit_;
  }
  std::shared_ptr<const Set> before = current();  // freed after the lock is released
  if (!limit.on) return swap_in(make(given, before.get(), threads), limit);
  const bool anew = before == nullptr || given.changes == before->changes;
  swap_in(make_within(given, before.get(), anew, limit, threads), limit);
}

}  // namespace ingot::runtime
