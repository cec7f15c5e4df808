# SPDX-License-Identifier: BSD-2-Clause
"""The lossy relay does what it is told: the program's path is the only argument."""

import select
import signal
import socket
import subprocess
import sys
import time
import unittest

RELAY = None
PATIENCE_S = 60
WINDOW = 50  # datagrams under way: no more than any socket's buffer holds


class Relay:
    """A relay to a socket while the test runs; `statistics` holds what it has said last."""

    def __init__(self, origin, *options):
        self.process = subprocess.Popen(
            [RELAY, "--listen", "127.0.0.1:0", "--to", "127.0.0.1:%d" % origin.getsockname()[1],
             *options], stdout=subprocess.PIPE, text=True)
        self.address = ("127.0.0.1", int(self.process.stdout.readline()))
        self.statistics = {}

    def read(self):
        for _ in ("to-origin", "to-client", "clients"):
            name, *fields = self.process.stdout.readline().split()
            self.statistics[name] = {key: int(value)
                                     for key, value in (f.split("=") for f in fields)}

    def await_passed(self, count):
        """Until so many datagrams of clients have come, and none is held back any more."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.process.send_signal(signal.SIGUSR1)
            self.read()
            waiting = count - self.statistics["to-origin"]["received"]
            if waiting == 0 and self.statistics["clients"]["held"] == 0:
                return
            assert time.monotonic() < deadline, self.statistics
            select.select([], [], [], 0.002)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.read()
        assert self.process.wait(PATIENCE_S) == 0
        self.process.stdout.close()


def udp():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(PATIENCE_S)
    return sock


class LossyRelay(unittest.TestCase):
    def setUp(self):
        self.origin = udp()
        self.addCleanup(self.origin.close)

    def one_way(self, count, *options):
        """What of @p count numbered datagrams arrives at the origin, and the statistics."""
        got = []
        with udp() as client, Relay(self.origin, *options) as relay:
            for number in range(count):
                client.sendto(b"%06d" % number, relay.address)
                if (number + 1) % WINDOW == 0 or number + 1 == count:
                    relay.await_passed(number + 1)
                    while len(got) < relay.statistics["to-origin"]["sent"]:
                        got.append(self.origin.recv(100))
        self.assertEqual(select.select([self.origin], [], [], 0)[0], [])
        return got, relay.statistics

    def test_without_rules_each_client_gets_its_own_answers(self):
        clients = [udp() for _ in range(40)]
        with Relay(self.origin) as relay:
            for turn in range(5):
                for number, client in enumerate(clients):
                    client.sendto(b"%d/%d" % (turn, number), relay.address)
                for _ in clients:
                    data, sender = self.origin.recvfrom(100)
                    self.origin.sendto(b"re " + data, sender)
                for number, client in enumerate(clients):
                    self.assertEqual(client.recv(100), b"re %d/%d" % (turn, number))
        for client in clients:
            client.close()
        self.assertEqual(relay.statistics["clients"]["seen"], 40)
        for direction in "to-origin", "to-client":
            self.assertEqual(relay.statistics[direction]["received"], 200)
            self.assertEqual(relay.statistics[direction]["sent"], 200)
            self.assertEqual(relay.statistics[direction]["lost"], 0)

    def test_loss_and_duplication_in_the_proportions_asked_for(self):
        got, statistics = self.one_way(2000, "--loss", "20", "--dup", "5", "--seed", "7")
        self.assertEqual(statistics["to-origin"]["received"], 2000)
        self.assertTrue(320 < statistics["to-origin"]["lost"] < 480, statistics)
        self.assertTrue(40 < statistics["to-origin"]["duplicated"] < 130, statistics)
        self.assertEqual(len(got), statistics["to-origin"]["sent"])
        self.assertEqual(len(set(got)), 2000 - statistics["to-origin"]["lost"])

    def test_same_seed_loses_the_same(self):
        first, _ = self.one_way(300, "--loss", "50", "--seed", "11")
        second, _ = self.one_way(300, "--loss", "50", "--seed", "11")
        third, _ = self.one_way(300, "--loss", "50", "--seed", "12")
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)

    def test_reordered_datagrams_all_arrive_in_another_order(self):
        got, statistics = self.one_way(500, "--reorder", "30", "--seed", "3")
        self.assertEqual(len(got), 500)
        self.assertNotEqual(got, sorted(got))
        self.assertTrue(100 < statistics["to-origin"]["reordered"] < 200, statistics)

    def test_delay_is_kept(self):
        client = udp()
        with Relay(self.origin, "--delay", "60-80") as relay:
            start = time.monotonic()
            client.sendto(b"x", relay.address)
            data, sender = self.origin.recvfrom(100)
            there = time.monotonic() - start
            self.origin.sendto(data, sender)
            client.recv(100)
            back = time.monotonic() - start
        client.close()
        self.assertGreaterEqual(there, 0.059)
        self.assertGreaterEqual(back, 0.119)

    def test_corruption_turns_one_bit_and_truncation_shortens(self):
        got, statistics = self.one_way(200, "--corrupt", "100")
        sent = [b"%06d" % number for number in range(200)]
        self.assertEqual(statistics["to-origin"]["corrupted"], 200)
        for before, after in zip(sent, got):
            bits = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
            self.assertEqual(bin(bits).count("1"), 1)
        got, statistics = self.one_way(200, "--truncate", "100")
        self.assertEqual(statistics["to-origin"]["truncated"], 200)
        self.assertTrue(all(len(data) < 6 for data in got))

    def test_longest_silent_client_makes_room(self):
        clients = [udp() for _ in range(4)]
        with Relay(self.origin, "--clients", "3") as relay:
            for number, client in enumerate(clients):
                client.sendto(b"%d" % number, relay.address)
                self.origin.recvfrom(100)
            clients[3].sendto(b"again", relay.address)
            data, sender = self.origin.recvfrom(100)
            self.origin.sendto(data, sender)
            self.assertEqual(clients[3].recv(100), b"again")
        for client in clients:
            client.close()
        self.assertEqual(relay.statistics["clients"]["seen"], 4)
        self.assertEqual(relay.statistics["clients"]["evicted"], 1)

    def test_bad_command_lines_are_refused(self):
        good = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:5683"]
        for bad in (good[:2], good + ["x"], good + ["--loss", "101"], good + ["--loss", "a"],
                    good + ["--delay", "9-5"], good + ["--delay", "5-"], good + ["--seed", "-1"],
                    good + ["--clients", "0"], ["--listen", "localhost:0"] + good[2:]):
            result = subprocess.run([RELAY] + bad, capture_output=True, timeout=PATIENCE_S)
            self.assertEqual(result.returncode, 2, bad)


if __name__ == "__main__":
    RELAY = sys.argv.pop(1)
    unittest.main(verbosity=1)
