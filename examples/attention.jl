# Julia with the package JSON; Downloads is in the standard library. usage: julia attention.jl [URL]
import Downloads
import JSON
using Printf

const URL = isempty(ARGS) ? get(ENV, "ATTENTIOND_URL", "http://127.0.0.1:8080") : ARGS[1]

struct Problem <: Exception
    document::AbstractDict
end

# Vectors of rows: Julia's matrices are column-major, and JSON would write them by columns.
function attention(; fields...)
    output = IOBuffer()
    response = Downloads.request(URL * "/attention"; method="POST", output=output, throw=false,
                                 input=IOBuffer(JSON.json(Dict(fields))),
                                 headers=["Content-Type" => "application/json"])
    response isa Downloads.RequestError && throw(response)
    document = JSON.parse(String(take!(output)))
    response.status == 200 || throw(Problem(document))
    return document
end

# The worked example: two queries, two keys and two values of three columns.
reply = attention(q=[[2, 0, 1], [0, 2, 1]], k=[[1, 1, 0], [0, 1, 1]], v=[[1, 0, 1], [0, 1, 0]])
for row in reply["output"]
    println(join([@sprintf("%.6f", number) for number in row], " "))
end

# The query has two columns, but the key has three.
try
    attention(q=[[2, 0]], k=[[1, 1, 0]], v=[[1, 0, 1]])
catch error
    error isa Problem || rethrow()
    p = error.document
    println("$(p["status"]) $(p["code"]) at $(p["pointer"]): $(p["detail"])")
end
