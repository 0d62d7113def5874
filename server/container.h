/* container.h: the CPUs and the memory that affinity and cgroups (versions 1 and 2) allow. Each call reads the files of
 * the kernel again; safe from any thread. */
#ifndef SERVER_CONTAINER_H
#define SERVER_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

size_t srv_cpus(void);     /* the lesser of affinity and CPU quota, rounded up; at least 1 */
uint64_t srv_memory(void); /* the lesser of the cgroup's limit and of MemAvailable, bytes; 1 GiB if neither is known */
double srv_cpu_throttled(void); /* seconds that the CPU quota has held this group back; 0 if the kernel does not say */

#endif
