/* address.h: where a daemon listens, and how `attentiond health` learns of it.
 *
 * The daemon publishes its address as the name of an abstract Unix socket, attentiond/<PID namespace>/<address>, which
 * needs no file and no privilege. Whoever shares its network namespace can read the names in /proc/net/unix; the PID
 * namespace tells the daemons of several containers on one host network apart.
 */
#ifndef SERVER_ADDRESS_H
#define SERVER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { SRV_HOST_SIZE = 64, SRV_ADDRESS_SIZE = 112 };

typedef struct srv_address {
    char host[SRV_HOST_SIZE]; /* without brackets */
    unsigned port;
} srv_address;

/* "127.0.0.1:8080", "[::1]:8080". A host of more than 100 bytes is cut. */
void srv_address_join(char text[SRV_ADDRESS_SIZE], const char *host, unsigned port);
/* The numeric address of a bound socket. false: errno says why. */
bool srv_address_of(int fd, srv_address *address);
/* Publishes the address until the descriptor that is returned is closed. -1: errno says why. */
int srv_address_publish(const srv_address *address);
/* The addresses that daemons of this PID namespace and network namespace have published. Returns their number, which
 * may be larger than `most`, the number of those that are stored. */
size_t srv_address_find(srv_address *found, size_t most);
/* The same from the text of /proc/net/unix and the name of a PID namespace. */
size_t srv_address_find_in(FILE *file, const char *space, srv_address *found, size_t most);

#endif
