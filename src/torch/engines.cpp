// In process, `plan` is a 32-byte tensor (magic, the number of a registered (plan, weights) pair, and an identifier of this process), and `weights` is empty.
// In saved programs (saved.cpp) `plan` is a plan without the values of its weights, and `weights` gives these in the plan's order. Sessions hold no user
// state; each pair has a pool of them, so that threads never wait for each other.
#include "torch/engines.h"

#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "torch/gpu.h"
#include "torch/saved.h"

namespace ingot_torch {

namespace {

constexpr uint64_t plan_magic = 0x6e616c70746f676eULL;  // "ngotplan"

ingot::SharedMutex registry_mutex;
std::unordered_map<uint64_t, std::shared_ptr<Entry>> registry;
uint64_t next_id = 1;

// Part of each plan tensor, so that a program exported in one process does not run an engine of another process that has the same number.
uint64_t process_word() {
  static const uint64_t word = [] {
    std::random_device random;
    return (static_cast<uint64_t>(random()) << 32) | random();
  }();
  return word;
}

void describe(const Pool& pool, uint32_t function, Pool::Function& into) {
  size_t inputs = 0, outputs = 0;
  check(ingot_plan_count(pool.plan, function, &inputs, &outputs));
  for (size_t i = 0; i < inputs; ++i) {
    ingot_binding b;
    check(ingot_plan_input(pool.plan, function, i, &b));
    into.written_inputs.push_back(b.written != 0);
    into.written += b.written != 0;
    into.orders.emplace_back(b.order, b.order != nullptr ? static_cast<size_t>(b.rank) : 0);
  }
  for (size_t o = 0; o < outputs; ++o) {
    ingot_binding b;
    check(ingot_plan_output(pool.plan, function, o, &b));
    into.outputs.push_back(b.dtype);
    int open = 0;
    check(ingot_plan_output_is_open(pool.plan, function, o, &open));
    into.open.push_back(open != 0);
    into.any_open = into.any_open || open != 0;
  }
  check(ingot_plan_state_count(pool.plan, function, &into.states));
}

}  // namespace

void Entry::find_device() { check(ingot_weights_device(weights, &gpu)); }

// Idle sessions keep the weights that they have: those of this engine go with it.
Entry::~Entry() {
  std::lock_guard lock(pool->mutex);
  for (auto& [index, function] : pool->functions) {
    std::erase_if(function.idle, [this](const Pool::Function::Session& session) {
      if (session.weights == version) ingot_session_release(session.handle);
      return session.weights == version;
    });
  }
}

Pool::~Pool() {
  for (auto& [index, function] : functions) {
    for (const Function::Session& session : function.idle) ingot_session_release(session.handle);
  }
}

Pool::Calls& Pool::calls() {
  if (calls_.forks != ingot::fork_count()) calls_ = {};
  return calls_;
}

void Pool::wait() {
  constexpr std::chrono::microseconds between_looks{50};  // a call of a small model takes less, and one of a large model hundreds of times as long
  std::lock_guard alone(waiting);
  size_t before = 0;
  {
    std::lock_guard lock(mutex);
    before = std::exchange(calls().turn, 1 - calls().turn);
  }
  for (;; std::this_thread::sleep_for(between_looks)) {
    std::lock_guard lock(mutex);
    if (calls().count[before] == 0) return;
  }
}

std::shared_ptr<Entry> registered(uint64_t number) {
  std::shared_ptr<Entry> entry;
  {
    std::shared_lock lock(registry_mutex);
    auto found = registry.find(number);
    if (found == registry.end())
      raise(INGOT_INVALID_INPUT, "ingot::execute: the engine of this plan tensor is not loaded in this process",
            "keep the ingot.Module alive, or load the saved file with ingot.load");
    entry = found->second;
  }
  if (entry->watch != nullptr) entry->watch->follow();
  return entry;
}

std::shared_ptr<Entry> find(const Tensor& plan, const std::vector<Tensor>& weights) {
  std::array<uint64_t, 3> head;
  if (!plan.is_cpu() || plan.numel() < static_cast<int64_t>(sizeof head)) raise(INGOT_INVALID_INPUT, "ingot::execute: `plan` is not a plan tensor");
  std::memcpy(head.data(), plan.const_data_ptr(), sizeof head);
  if (head[0] != plan_magic && holds_plan(plan)) {
    auto make = [](ingot_plan* p, ingot_weights* w) -> std::shared_ptr<void> {
      auto entry = std::make_shared<Entry>(std::make_shared<Pool>(p, nullptr), w);
      entry->find_device();
      return entry;
    };
    return std::static_pointer_cast<Entry>(saved_pool(plan, weights, make));
  }
  if (head[0] != plan_magic) raise(INGOT_FORMAT, "ingot::execute: `plan` is not a plan tensor: it does not start as one", "save the program again with ingot.save");
  return registered(head[2] == process_word() ? head[1] : 0);
}

Lease::Lease(Entry& entry, int64_t function) : entry_(entry) {
  Pool& pool = *entry.pool;
  {
    std::lock_guard lock(pool.mutex);
    auto [at, fresh] = pool.functions.try_emplace(function);
    function_ = &at->second;
    if (fresh) describe(pool, static_cast<uint32_t>(function), *function_);
    if (!function_->idle.empty()) {
      session_ = function_->idle.back().handle;
      weights_ = function_->idle.back().weights;
      function_->idle.pop_back();
    }
    take_weights();
    turn_ = pool.calls().turn;
    ++pool.calls().count[turn_];
  }
  try {
    prepare(static_cast<uint32_t>(function));
  } catch (...) {
    std::lock_guard lock(pool.mutex);
    --pool.calls().count[turn_];
    throw;
  }
}

void Lease::prepare(uint32_t function) {
  Pool& pool = *entry_.pool;
  if (session_ == nullptr) {
    check(ingot_session_create(pool.plan, entry_.weights, function, pool.options, &session_));
    if (entry_.gpu >= 0) check(ingot_session_set_allocator(session_, &gpu_memory(entry_.gpu)));
    std::lock_guard lock(pool.mutex);
    take_weights();
  }
  // On a GPU a session keeps no memory between calls, so that it may be used in any stream.
  if (entry_.gpu >= 0) check(ingot_session_set_stream(session_, current_stream(entry_.gpu)));
}

// Called under the pool's mutex: whoever changes `used` may release the old weights afterwards, which the session then keeps alive.
void Lease::take_weights() {
  if (session_ == nullptr || weights_ == entry_.version) return;
  check(ingot_session_set_weights(session_, entry_.used != nullptr ? entry_.used : entry_.weights));
  weights_ = entry_.version;
}

Lease::~Lease() {
  std::lock_guard lock(entry_.pool->mutex);
  --entry_.pool->calls().count[turn_];
  function_->idle.push_back({session_, weights_});
}

}  // namespace ingot_torch

using namespace ingot_torch;

// For python/ingot: registers a (plan, weights) pair, its session options and its watch (or null). The caller keeps them alive until it unregisters them.
// like: the number of a registered engine of the same plan, whose sessions it shares: its weights are a fork of that engine's, or both are forks. 0: none.
extern "C" __attribute__((visibility("default"))) uint64_t ingot_torch_register(ingot_plan* plan, ingot_weights* weights, const ingot_options* options, const void* watch,
                                                                                uint64_t like) {
  std::shared_ptr<Pool> pool;
  if (like != 0) {
    std::shared_lock lock(registry_mutex);
    if (auto found = registry.find(like); found != registry.end()) pool = found->second->pool;
  }
  auto entry = std::make_shared<Entry>(pool != nullptr ? std::move(pool) : std::make_shared<Pool>(plan, options), weights);
  entry->watch = static_cast<const Watch*>(watch);
  if (ingot_weights_device(weights, &entry->gpu) != INGOT_OK) return 0;
  std::unique_lock lock(registry_mutex);
  uint64_t id = next_id++;
  registry.emplace(id, std::move(entry));
  return id;
}

// Later runs read these weights: a fork of the registered ones, or null for the registered ones. Current runs finish with the old ones, which may be
// released: the sessions in use keep them alive, and idle ones drop them now.
extern "C" __attribute__((visibility("default"))) void ingot_torch_use(uint64_t id, ingot_weights* weights) {
  std::shared_lock lock(registry_mutex);
  auto found = registry.find(id);
  if (found == registry.end()) return;
  Entry& entry = *found->second;
  std::lock_guard held(entry.pool->mutex);
  const uint64_t before = entry.version;
  entry.used = weights;
  entry.version = ++Entry::versions;
  for (auto& [index, function] : entry.pool->functions) {
    for (Pool::Function::Session& session : function.idle) {
      if (session.weights != before) continue;  // another engine's
      if (ingot_session_set_weights(session.handle, weights != nullptr ? weights : entry.weights) == INGOT_OK) session.weights = entry.version;
    }
  }
}

// Waits until the calls that are under way now have ended, of this engine and of those that share its sessions. Values that were replaced before may be freed then.
extern "C" __attribute__((visibility("default"))) void ingot_torch_wait(uint64_t id) {
  std::shared_ptr<Pool> pool;
  {
    std::shared_lock lock(registry_mutex);
    if (auto found = registry.find(id); found != registry.end()) pool = found->second->pool;
  }
  if (pool != nullptr) pool->wait();
}

extern "C" __attribute__((visibility("default"))) void ingot_torch_unregister(uint64_t id) {
  std::shared_ptr<Entry> gone;  // released outside the lock, after all running calls
  std::unique_lock lock(registry_mutex);
  auto found = registry.find(id);
  if (found == registry.end()) return;
  gone = std::move(found->second);
  registry.erase(found);
  lock.unlock();
}

extern "C" __attribute__((visibility("default"))) void ingot_torch_plan_words(uint64_t id, uint64_t* four) {
  four[0] = plan_magic;
  four[1] = id;
  four[2] = process_word();
  four[3] = 0;
}

// True if an engine was ever registered: engines use torch's threads.
extern "C" __attribute__((visibility("default"))) int ingot_torch_used() { return Entry::any ? 1 : 0; }
