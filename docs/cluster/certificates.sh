# Sets up TLS for the processes of one job: `. certificates.sh FOLDER`, on every node.
# The first call creates a key and a certificate in FOLDER, readable by its owner alone. Scheduler,
# workers and coordinator accept only connections of processes that have this key.
if [ ! -s "$1/certificate.pem" ]; then
    mkdir -p -m 700 "$1"
    (umask 077 && openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=lasthop \
        -keyout "$1/key.pem" -out "$1/certificate.pem" 2>/dev/null)
fi
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE="$1/certificate.pem"
for role in SCHEDULER WORKER CLIENT; do
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__CERT=$1/certificate.pem"
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__KEY=$1/key.pem"
done
# The HTTP servers that Dask starts in every process answer nothing.
export DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES=[] DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=[]
