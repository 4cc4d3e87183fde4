// The stream beside a session's in which streamed weights come to the device.
#pragma once
#include <memory>
#include <vector>

#include "backend/run/device.h"
#include "runtime/streaming.h"

namespace ingot::runtime {

class Lane {
 public:
  explicit Lane(const backend::Backend& backend) : stream_(backend.new_own_stream()) {}

  // A run has given all its work to the session's stream.
  void note_end(backend::Stream& stream);
  // Until all noted runs are done: then nothing reads the memory that was streamed from.
  void wait();

  // The copies of one run, each in order behind the last step that reads what lies in its place, and each before the step that waits for it. They are work behind all
  // that the session's stream has by then, and that stream comes after all of them: so a recording of it has them too, and the ring may go when the run's other memory does.
  class Loading {
   public:
    Loading(Lane& lane, const Streaming::OfFunction& loads, std::byte* ring, backend::Stream& stream) : lane_(lane), loads_(loads), ring_(ring), stream_(stream) {}
    ~Loading();
    Loading(const Loading&) = delete;
    Loading& operator=(const Loading&) = delete;
    void begin();
    void before(uint32_t step);
    void after(uint32_t step) { start(step); }

   private:
    void start(uint32_t after);
    Lane& lane_;
    const Streaming::OfFunction& loads_;
    std::byte* ring_;
    backend::Stream& stream_;
    size_t started_ = 0, met_ = 0;
    bool ahead_ = false;  // the lane may have work that the session's stream does not come after
  };

 private:
  std::unique_ptr<backend::Stream> stream_;
  std::unique_ptr<backend::Point> end_;                     // in the session's stream, behind the last run
  std::unique_ptr<backend::Point> free_;                    // in the session's stream: what copies write to is not read any more
  std::vector<std::unique_ptr<backend::Point>> arrived_;    // in the lane, behind each load
};

}  // namespace ingot::runtime
