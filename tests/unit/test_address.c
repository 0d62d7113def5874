/* Where a daemon listens: written, published and found again. */
#include "../support/check.h"

#include "../../server/address.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_join(void) {
    char text[SRV_ADDRESS_SIZE];
    srv_address_join(text, "127.0.0.1", 8080);
    CHECK(strcmp(text, "127.0.0.1:8080") == 0, "%s", text);
    srv_address_join(text, "::1", 65535);
    CHECK(strcmp(text, "[::1]:65535") == 0, "%s", text);
}

static void test_names_in_proc_net_unix(void) {
    static char text[] =
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 15 /run/attentiond/7/1.2.3.4:5\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 16 @attentiond/4026531836/0.0.0.0:9000\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 17\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 18 @attentiond/4026539999/0.0.0.0:9001\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 19 @attentiond/4026531836/[::1]:65535\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 20 @attentiond/4026531836/[::1]\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 21 @attentiond/4026531836/:80\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 22 @attentiond/4026531836/1.2.3.4:80x\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 23 @attentiond/4026531836/1.2.3.4:65536\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 24 @attentiond/40265318/1.2.3.4:80\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 25 @attentiond/4026531836/10.0.0.7:80\n";
    srv_address found[2] = {0};
    FILE *file = fmemopen(text, sizeof text - 1, "r");
    CHECK_FATAL(file != NULL, "no memory");
    const size_t count = srv_address_find_in(file, "4026531836", found, 2);
    fclose(file);
    CHECK(count == 3, "%zu are found", count);
    CHECK(strcmp(found[0].host, "0.0.0.0") == 0 && found[0].port == 9000, "%s %u", found[0].host, found[0].port);
    CHECK(strcmp(found[1].host, "::1") == 0 && found[1].port == 65535, "%s %u", found[1].host, found[1].port);
}

static bool is_found(const srv_address *wanted) {
    static srv_address all[4096]; /* other daemons may run here */
    const size_t count = srv_address_find(all, sizeof all / sizeof *all);
    for (size_t i = 0; i < count && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].host, wanted->host) == 0 && all[i].port == wanted->port) return true;
    return false;
}

static void test_what_is_published_is_found(void) {
    if (access("/proc/net/unix", R_OK) != 0) {
        check_skip("no /proc/net/unix");
        return;
    }
    static const srv_address rows[] = {{"192.0.2.1", 65001}, {"2001:db8::ffff:ffff:ffff:ffff", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int fd = srv_address_publish(&rows[i]);
        CHECK_FATAL(fd >= 0, "%s cannot be published", rows[i].host);
        CHECK(is_found(&rows[i]), "%s is not found", rows[i].host);
        CHECK(srv_address_publish(&rows[i]) < 0, "%s is published twice", rows[i].host);
        close(fd);
        CHECK(!is_found(&rows[i]), "%s is found after its end", rows[i].host);
    }
}

static void test_the_address_of_a_socket(void) {
    srv_address address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_FATAL(fd >= 0 && listen(fd, 1) == 0, "no socket");
    CHECK(srv_address_of(fd, &address) && strcmp(address.host, "0.0.0.0") == 0 && address.port > 0, "%s %u",
          address.host, address.port);
    close(fd);
    CHECK(!srv_address_of(-1, &address), "no socket has an address");
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_join), CHECK_TEST(test_names_in_proc_net_unix),
                                CHECK_TEST(test_what_is_published_is_found), CHECK_TEST(test_the_address_of_a_socket)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
