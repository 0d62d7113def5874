/* epoll_ctl, as libmicrohttpd calls it: removing a descriptor that is not in the set counts as done.
 *
 * MHD_quiesce_daemon and the threads of the library each remove the listening socket from a thread's epoll set, without
 * a lock. In 0.9.75 (daemon.c, lines 4972 and 5527) the one that comes second gets ENOENT and aborts the process, which
 * then dies while it drains. The dynamic linker takes this definition before that of libc. Under the thread sanitizer
 * libc's stays, since the sanitizer learns from it which thread waits for which. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __SANITIZE_THREAD__
int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) {
    const long result = syscall(SYS_epoll_ctl, set, operation, fd, event);
    return result != 0 && operation == EPOLL_CTL_DEL && errno == ENOENT ? 0 : (int)result;
}
#else
typedef int srv_no_epoll_ctl; /* a source must hold something */
#endif
