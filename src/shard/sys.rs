//! The kernel's shared memory: submission and completion queues, the provided-buffer ring, send stations.
