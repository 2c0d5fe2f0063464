// What all kernels of the quantiser receive. No host headers, as cuda/params.hpp.
#pragma once

namespace tessera::cuda::quantise {

struct QuantiseParams {
  const void* input;
  long long input_strides[3];  // outer, head, row
  unsigned char* output;
  long long output_strides[4];
  float* scales;
  long long scale_shape[4], scale_strides[4];  // strides 0 where they broadcast
  float* means;                                // null: none
  long long mean_strides[4];
  long long outer, heads, rows;
  long long unit_rows;  // whose largest magnitudes are found together: a block's where scales have blocks
  int dim;
  int tile_rows;      // of a head, whose codes a block writes at a time
  int scale_rows;     // of a block; 0: none
  int by_channel;     // scales
  int lanes;          // that have a row together, 16 bytes each at a time: a power of 2
  int whole_input;    // rows are of whole 16 bytes
  int whole_output;   // the codes of one load can be stored at once
  int transposed;     // the rows of a channel lie side by side, or anyhow but not the channels of a row
  int whole_columns;  // four rows of a channel can be stored at once
  int rotate;         // rows go through the Hadamard transform
  float factor;       // of that
  float format_largest;
  void* workspace;  // sums for the means; when those are done, largest magnitudes
};

}  // namespace tessera::cuda::quantise
