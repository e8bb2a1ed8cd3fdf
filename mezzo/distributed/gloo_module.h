// What libmezzo-gloo.so offers: groups of processes that exchange bytes by Gloo. It is a library of
// its own because Gloo's interface is C++, and linking it would make every start of a program read
// Gloo's libraries. Plain types only cross this interface, and no exception.
#pragma once

#include <cstddef>

extern "C" {

// Raised whenever something below changes.
#define MEZZO_GLOO_INTERFACE 1

// Where Gloo keeps the addresses of its processes until all have them.
struct MezzoGlooStore {
  void* self;
  // False if it failed.
  bool (*set)(void* self, const char* key, const char* bytes, std::size_t count);
  // Waits for the value, which lives until the next call; null if it does not come in time.
  const char* (*get)(void* self, const char* key, std::size_t* count);
};

struct MezzoGlooError {
  char text[512];
};

struct MezzoGloo;  // a group

// MEZZO_GLOO_INTERFACE of the library.
int mezzo_gloo_interface();
// Connects to the other processes, by TCP. `address` is where the others reach this one's host.
// Null with an error if that fails or takes longer than `seconds`. The group lives until the
// process ends.
MezzoGloo* mezzo_gloo_connect(int rank, int size, const char* address, int seconds,
                              const MezzoGlooStore* store, MezzoGlooError* error);
// What ProcessGroup's functions of these names do; counts are bytes of one part, and not 0. They
// wait without limit. False with an error if a connection is lost.
bool mezzo_gloo_broadcast(MezzoGloo* group, void* bytes, std::size_t count, MezzoGlooError* error);
bool mezzo_gloo_all_to_all(MezzoGloo* group, const void* send, void* receive, std::size_t count,
                           MezzoGlooError* error);
bool mezzo_gloo_all_gather(MezzoGloo* group, const void* send, void* receive, std::size_t count,
                           MezzoGlooError* error);

}  // extern "C"
