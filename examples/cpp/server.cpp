// Serves a plan of one float32 input [rows, width] over TCP: a request is a line of numbers, and so is its answer. No Python, no torch.
//
//   c++ -std=c++20 -O2 server.cpp -o server $(pkg-config --cflags --libs ingot_runtime) -pthread
//   ./server model.ingot 4        # 4 threads; prints the port it listens on
//   echo "1 2 3 4" | nc localhost PORT
//
// All threads share the plan and its weights. Each thread has its own session, so calls run side by side.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ingot/ingot.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

// The results of one request: its numbers are rows of the input, one after another.
static std::string answer(ingot::Session& session, const std::string& line, int64_t width) {
  std::istringstream text(line);
  std::vector<float> x;
  for (float value; text >> value;) x.push_back(value);
  if (!text.eof() || x.empty() || x.size() % static_cast<size_t>(width) != 0) return "error: give " + std::to_string(width) + " numbers for each row\n";
  try {
    const int64_t rows = static_cast<int64_t>(x.size()) / width;
    std::vector<ingot::Tensor> results = session.run({ingot::Tensor(std::span(x), {rows, width})});
    std::ostringstream out;
    for (float value : results[0].values<float>()) out << value << ' ';
    return out.str() + "\n";
  } catch (const ingot::Error& error) {
    return "error: " + error.message() + "\n";  // too many rows, for one; the session goes on
  }
}

static void talk(int connection, ingot::Session& session, int64_t width) {
  std::string pending;
  char buffer[4096];
  for (ssize_t got; (got = read(connection, buffer, sizeof buffer)) > 0;) {
    pending.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      const std::string reply = answer(session, pending.substr(0, end), width);
      for (size_t sent = 0; sent < reply.size();) {
        const ssize_t count = write(connection, reply.data() + sent, reply.size() - sent);
        if (count <= 0) return;
        sent += static_cast<size_t>(count);
      }
    }
    if (pending.size() > 1 << 20) return;  // a line without an end
  }
}

// A socket that listens on a free port of this machine alone; prints the port.
static int listening() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, plain, size) != 0 || listen(listener, 64) != 0 || getsockname(listener, plain, &size) != 0)
    throw std::runtime_error("cannot listen on localhost");
  std::printf("listening on port %d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return listener;
}

static void serve(const char* path, int threads) {
  const ingot::Plan plan = ingot::Plan::load(path);
  const std::vector<ingot::Binding> inputs = plan.inputs();
  if (inputs.size() != 1 || inputs[0].dtype != INGOT_FLOAT32 || inputs[0].dims.size() != 2) throw std::runtime_error("the plan has to take one float32 input [rows, width]");
  const int64_t width = inputs[0].dims[1];
  const ingot::Weights weights(plan);
  const int listener = listening();

  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      ingot::Session session(plan, weights);
      for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0; close(connection)) talk(connection, session, width);
    });
  }
}

int main(int argc, char** argv) {
  if (argc != 3 || std::atoi(argv[2]) < 1) {
    std::fprintf(stderr, "usage: server PLAN THREADS\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);  // a client that goes away is no reason to end
  try {
    serve(argv[1], std::atoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
