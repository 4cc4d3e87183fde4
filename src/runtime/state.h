// The memory that a model writes (buffers, caches, counters), apart from the sessions that run the model.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "runtime/weights.h"

namespace ingot::runtime {

// One entry for each weight that some function of the plan writes, and in a shared state for each row-major input that some function writes: a cache whose length
// is open. Functions that write the same weight, or an input of one name, share its entry. An entry takes memory, and the value that its weight has then (zeros,
// for an input), when it is first used. Memory of the caller's may be bound to it instead.
//
// For any thread, but one user at a time: a run of a session, or a call of what stands below "calls". The second gets Error (invalid_input).
class State {
 public:
  // Of one session: it runs in that session's stream alone, so nothing has to be ordered. Shared: sessions of several streams may use it in turn.
  enum class Of { one_session, shared };
  // `sizes`: of the symbols that inputs' dims are made of, by name; those that are not named have their usual size. Error (invalid_input) for what the plan does not have.
  using Sizes = std::vector<std::pair<std::string, int64_t>>;
  State(std::shared_ptr<Weights> weights, Allocator& allocator, Of of, Sizes sizes = {});

  // For the length of a run or a call. On a GPU, the work that the user gives to the stream comes after all earlier work with the state, whichever stream that is
  // in. While the caller records the stream, the order is the caller's.
  class Use {
   public:
    explicit Use(State&, const backend::Stream* = nullptr);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // All work is in the stream. A user that ends without it makes the next one wait for the whole device.
    void finish();

   private:
    // Says that the state is in use.
    class Claim {
     public:
      explicit Claim(State&);
      ~Claim() { state_.used_.store(false, std::memory_order_release); }
      Claim(const Claim&) = delete;
      Claim& operator=(const Claim&) = delete;

     private:
      State& state_;
    };
    State& state_;
    const Claim claim_;
    const backend::Stream* stream_ = nullptr;  // in which our work has to be ordered
  };

  size_t size() const { return entries_.size(); }
  // Name, dtype and dims.
  const plan::Weight& what(size_t entry) const { return entries_[entry].what; }
  bool is_input(size_t entry) const { return entries_[entry].weight == no_weight; }
  static constexpr size_t none = SIZE_MAX;
  // Of the input of this name; none where there is no such entry.
  size_t input(std::string_view name) const;
  // By the number of a weight in the plan; by its name, or the name that is tied to it. Error (invalid_input) when there is none.
  size_t entry_of(uint32_t weight) const;
  size_t find(std::string_view name) const;
  // First values are these weights' from now on, forks of those before.
  void set_weights(std::shared_ptr<Weights> weights) { weights_ = std::move(weights); }
  // Error (invalid_input) unless sessions of these weights can run with it: they are of the same plan on the same device.
  void check_fits(const Weights&) const;

  // For a user: where an entry lies, with memory. What has none gets it, and its first value by a copy in the stream.
  const HostTensor& memory(size_t entry, backend::Stream&);
  bool is_bound(size_t entry) const { return entries_[entry].bound; }

  // ---- calls; what they copy has arrived when they return, and what fails changes nothing

  // Memory and first values for all entries whose weights have values.
  void begin();
  // Larger sizes of some symbols: what entries hold stays where its indices say, the rest is zeros. Entries in the caller's memory must not change.
  void grow(const Sizes& sizes);
  // Memory of the caller's, of the weight's dtype and sizes with any strides, is read and written in place from now on, and must outlive its use. Data null: memory of
  // the state's own again, with the value that the weight has when it is used next.
  void bind(size_t entry, const HostTensor& memory);
  // An entry to (`out`) or from dense row-major memory of the host or the device.
  void copy(size_t entry, void* data, size_t bytes, bool out);
  // All entries to (`out`) or from dense memory of the host, one after another.
  void copy_all(std::byte* data, bool out);
  // The weights' values again, wherever the entries lie; or where they are the state's own alone.
  void reset(bool own_only = false);
  // Another state with the same sizes and values, all in memory of its own.
  std::shared_ptr<State> fork();
  // What another state of the same plan on the same device holds.
  void copy_from(State& other);
  // Where an entry lies; all work with it is done.
  HostTensor tensor(size_t entry);

 private:
  static constexpr uint32_t no_weight = UINT32_MAX;
  struct Entry {
    plan::Weight what;
    uint32_t weight = no_weight;
    bool bound = false;
    MemoryBlock own;
    HostTensor memory;              // `own` or what is bound; data null: none yet
    std::vector<int64_t> strides;   // of what is bound
  };
  bool on_device() const { return weights_->backend().memory() != nullptr; }
  void with_stream(FunctionRef<void(backend::Stream&)> work);
  void transfer(const Entry&, void* dense, bool out, backend::Stream&) const;
  std::vector<plan::Weight> inputs_at(const Sizes&) const;
  const std::byte* first_value(const Entry&) const;
  [[noreturn]] static void no_first_value(const Entry&, const char* remedy);
  const std::byte* begins_with(const Entry&, MemoryBlock& zeros) const;
  MemoryBlock room(const plan::Weight&) const;
  static void settle(Entry&, MemoryBlock own);
  void check_reachable(const Entry&) const;

  std::shared_ptr<Weights> weights_;
  Allocator& allocator_;  // of memory of the host
  const Of of_;
  Sizes sizes_;
  std::vector<Entry> entries_;
  std::atomic<bool> used_ = false;
  // Behind the last work with a shared state. `lost_`: there may be work behind it.
  std::unique_ptr<backend::Point> last_;
  bool lost_ = false;
};

}  // namespace ingot::runtime
