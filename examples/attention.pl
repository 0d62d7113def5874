# Perl's core modules. usage: perl attention.pl [URL]
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;

my $url = $ARGV[0] // $ENV{ATTENTIOND_URL} // 'http://127.0.0.1:8080';

# the reply's document; an error dies with the problem document
sub attention {
    my %fields = @_;
    my $reply = HTTP::Tiny->new->post("$url/attention",
        { headers => { 'Content-Type' => 'application/json' }, content => encode_json(\%fields) });
    die "$reply->{content}\n" if $reply->{status} == 599;    # no answer from a server
    my $document = decode_json($reply->{content});
    die $document unless $reply->{success};
    return $document;
}

# The worked example: two queries, two keys and two values of three columns.
my $reply = attention(q => [[2, 0, 1], [0, 2, 1]], k => [[1, 1, 0], [0, 1, 1]], v => [[1, 0, 1], [0, 1, 0]]);
print join(' ', map { sprintf '%.6f', $_ } @$_), "\n" for @{ $reply->{output} };

# The query has two columns, but the key has three.
eval { attention(q => [[2, 0]], k => [[1, 1, 0]], v => [[1, 0, 1]]) };
if (my $problem = $@) {
    die $problem unless ref $problem;
    print "$problem->{status} $problem->{code} at $problem->{pointer}: $problem->{detail}\n";
}
