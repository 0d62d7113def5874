# Ruby's standard library. usage: ruby attention.rb [URL]
require "json"
require "net/http"

URL = ARGV[0] || ENV["ATTENTIOND_URL"] || "http://127.0.0.1:8080"

class Problem < StandardError
  attr_reader :document

  def initialize(document)
    super(document["detail"])
    @document = document
  end
end

def attention(**fields)
  reply = Net::HTTP.post(URI("#{URL}/attention"), JSON.generate(fields), "Content-Type" => "application/json")
  document = JSON.parse(reply.body)
  raise Problem, document unless reply.is_a?(Net::HTTPOK)

  document
end

# The worked example: two queries, two keys and two values of three columns.
reply = attention(q: [[2, 0, 1], [0, 2, 1]], k: [[1, 1, 0], [0, 1, 1]], v: [[1, 0, 1], [0, 1, 0]])
reply["output"].each { |row| puts row.map { |number| format("%.6f", number) }.join(" ") }

# The query has two columns, but the key has three.
begin
  attention(q: [[2, 0]], k: [[1, 1, 0]], v: [[1, 0, 1]])
rescue Problem => error
  puts format("%<status>d %<code>s at %<pointer>s: %<detail>s", error.document.transform_keys(&:to_sym))
end
