/* process.h: figures of this process, read from /proc at each call; NaN: not known. Safe from any thread. */
#ifndef SERVER_PROCESS_H
#define SERVER_PROCESS_H

double srv_process_cpu_seconds(void);
double srv_process_threads(void);
double srv_process_start_time(void);      /* seconds since 1970 */
double srv_process_virtual_memory(void);  /* bytes */
double srv_process_resident_memory(void); /* bytes */
double srv_process_open_files(void);
double srv_process_most_files(void); /* that may be open */

#endif
