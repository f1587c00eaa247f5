# Web browsing with the Mah distributions on stock ns-2 one-way TCP agents.
# Usage: ns web.tcl key=value ...   One page (main reply + n objects) at a time, no think time.
array set o {
  tcp Reno  err none  p 0.025  bad 0.1  good 10.0  berg 1e-6  berb 1e-2  topo LAN  cong 0  seed 1
  frame 252 app 250   ackpkt 40 window 20 q 50 minrto 1 stop 2000
  conn 4    reset 1   done ack  reqone 0  main 1  imgadj 0  interp 0  syn def  zero 1000  winit def  delack 0 verbose 0
  idle def  sched def  slim 0  restore 0
}
foreach a $argv {
  if {![regexp {^([a-z_]+)=(.*)$} $a -> k v] || ![info exists o($k)]} { puts stderr "bad arg $a"; exit 2 }
  set o($k) $v
}
set here [file dirname [info script]]
set mah [file normalize [file join $here .. .. crates lasthop-sim src app mah]]
if {$o(slim)} { remove-all-packet-headers; add-packet-header IP TCP Flags RTP }
ns-random [expr {1000 + $o(seed)}]
set ns [new Simulator]; if {$o(sched) ne "def"} { $ns use-scheduler $o(sched) }
proc mkrng {stream} { global o; set r [new RNG]; $r seed [expr {104729 * $o(seed) + 7919 * $stream + 17}]; return $r }
set S [$ns node]; set A [$ns node]; set C [$ns node]
if {$o(topo) eq "LAN"} { set bw 10Mb; set dl 1ms; set cr 9.99Mb } else { set bw 2Mb; set dl 50ms; set cr 1.99Mb }
$ns duplex-link $S $A $bw $dl DropTail
$ns duplex-link $A $C 64kb 50ms DropTail
foreach {x y} {S A A S A C C A} { $ns queue-limit [set $x] [set $y] $o(q) }

# Every frame is taken as data-sized on the down link and ACK-sized on the up link (see channel.tcl).
source [file join $here channel.tcl]
foreach {st x y sz} [list 1 $A $C $o(frame) 2 $C $A $o(ackpkt)] {
  if {$o(err) eq "none"} break
  if {$o(err) eq "two"} { two_state [mkrng $st] $o(good) $o(bad) $o(berg) $o(berb) $sz $x $y; continue }
  if {$o(err) eq "uniform"} {
    set e [new ErrorModel]; $e unit pkt; $e set rate_ $o(p)
    set u [new RandomVariable/Uniform]; $u set min_ 0; $u set max_ 1; $u use-rng [mkrng $st]; $e ranvar $u
  } else { error "err=$o(err)" }
  $e drop-target [new Agent/Null]; $ns link-lossmodel $e $x $y
}
if {$o(cong)} {
  set udp [new Agent/UDP]; $udp set packetSize_ 1500; $ns attach-agent $S $udp
  set nul [new Agent/Null]; $ns attach-agent $A $nul; $ns connect $udp $nul
  set src [new Application/Traffic/Exponential]
  $src set burst_time_ 1.0; $src set idle_time_ 1.35; $src set rate_ $cr; $src set packetSize_ 250
  $src use-rng [mkrng 3]; $src attach-agent $udp; $ns at 0.0 "$src start"
}
Agent/TCP set packetSize_ $o(frame)
Agent/TCP set useHeaders_ false
Agent/TCP set window_ $o(window)
Agent/TCP set minrto_ $o(minrto)
Agent/TCPSink set packetSize_ $o(ackpkt)
if {$o(syn) ne "def"} { Agent/TCP set syn_ $o(syn) }
if {$o(winit) ne "def"} { Agent/TCP set windowInit_ $o(winit) }
if {$o(idle) ne "def"} { Agent/TCP set slow_start_restart_ $o(idle) }
set sinkt TCPSink; if {$o(tcp) eq "Sack1"} { append sinkt /Sack1 }
if {$o(delack)} { append sinkt /DelAck }

# sampling: CSV value,count,cdf  (step inverse CDF, optionally linear interpolation)
proc loadcdf {name} {
  global mah V F
  set f [open [file join $mah $name.csv]]; gets $f
  set V($name) {}; set F($name) {}
  while {[gets $f l] >= 0} { lassign [split $l ,] v c p; lappend V($name) $v; lappend F($name) $p }
  close $f
}
proc lassign {l args} { foreach a $args x $l { upvar $a y; set y $x } }
proc draw {name rng} {
  global V F o
  set u [$rng uniform 0 1]; set lo 0; set hi [expr {[llength $F($name)]-1}]
  while {$lo < $hi} { set m [expr {($lo+$hi)/2}]; if {[lindex $F($name) $m] < $u} {set lo [expr {$m+1}]} else {set hi $m} }
  set v [lindex $V($name) $lo]
  if {$o(interp) && $lo > 0} {
    set f0 [lindex $F($name) [expr {$lo-1}]]; set v0 [lindex $V($name) [expr {$lo-1}]]
    set v [expr {$v0 + ($u-$f0)*($v-$v0)/([lindex $F($name) $lo]-$f0)}]
  }
  return [expr {round($v)}]
}
foreach n {mah_request_length mah_reply_length mah_connections_per_page} { loadcdf $n }
set rq [mkrng 11]; set rr [mkrng 12]; set rn [mkrng 13]

# one transfer channel = sender agent + sink; kind req (client->server) or rep (server->client)
Class Rx -superclass Application
Rx instproc recv {n} { $self instvar ch_; chan_rx $ch_ $n }
proc mkchan {i kind} {
  global ns o S C ch sinkt
  if {$kind eq "req"} {set a $C; set b $S} else {set a $S; set b $C}
  set t [new Agent/TCP/$o(tcp)]; set k [new Agent/$sinkt]
  $ns attach-agent $a $t; $ns attach-agent $b $k; $ns connect $t $k
  set f [new Application/FTP]; $f attach-agent $t
  set ch($i,$kind,t) $t; set ch($i,$kind,k) $k; set ch($i,$kind,f) $f; set ch($i,$kind,used) 0
  if {$o(done) eq "rx"} {
    set r [new Rx]; $r set ch_ "$i $kind"; $r attach-agent $k; $r start; set ch($i,$kind,got) 0; set ch($i,$kind,want) 1e18
    $t proc done {} {}
  } else { $t proc done {} "chan_done $i $kind" }
}
# A reset clears the counters of an agent: they are added up before.
set rto 0; set rexmt 0
proc count {t} { global rto rexmt; incr rto [$t set nrexmit_]; incr rexmt [$t set nrexmitpack_] }
# After a lost SYN, ns-2 sets windowInit_ to 1 for good: restore=1 sets it to 2 before each transfer.
proc chan_send {i kind bytes} {
  global ch o
  if {$bytes <= 0} { set bytes $o(zero) }
  set n [expr {int(ceil($bytes/double($o(app))))}]
  if {$kind eq "req" && $o(reqone)} { set n 1; $ch($i,$kind,t) set packetSize_ $bytes }
  if {$o(reset) && $ch($i,$kind,used)} { count $ch($i,$kind,t); if {$o(restore)} { $ch($i,$kind,t) set windowInit_ 2 }; $ch($i,$kind,t) reset; $ch($i,$kind,k) reset; set ch($i,$kind,got) 0; set ch($i,$kind,used) 0 }
  if {$o(done) eq "rx"} {
    if {!$ch($i,$kind,used)} { set ch($i,$kind,want) [expr {[Agent/TCP set syn_] ? 40 : 0}]; set ch($i,$kind,got) 0 }
    set ch($i,$kind,want) [expr {$ch($i,$kind,want) + $n*[$ch($i,$kind,t) set packetSize_]}]
  }
  set ch($i,$kind,used) 1
  $ch($i,$kind,f) producemore $n
}
proc chan_rx {c n} {
  global ch ns
  lassign $c i kind
  set ch($i,$kind,got) [expr {$ch($i,$kind,got)+$n}]
  if {$ch($i,$kind,got) >= $ch($i,$kind,want)} { $ns at [$ns now] "chan_done $i $kind" }
}
proc chan_done {i kind} { if {$kind eq "req"} { got_request $i } else { got_reply $i } }
proc drawrep {} { global rr o; set b [draw mah_reply_length $rr]; if {$b <= 0} {set b $o(zero)}; return $b }
proc start_page {} {
  global pg rq
  set pg(bytes) 0; set pg(nimg) -1; set pg(asked) 0; set pg(got) 0
  chan_send 0 req [draw mah_request_length $rq]
}
proc got_request {i} { global pg; set b [drawrep]; set pg(bytes) [expr {$pg(bytes)+$b}]; chan_send $i rep $b }
proc got_reply {i} {
  global pg o rn rq tot pages tlast ns reps
  incr reps
  if {$pg(nimg) < 0} {
    set pg(nimg) [expr {[draw mah_connections_per_page $rn] - $o(imgadj)}]
    set idle {}; for {set k 0} {$k < $o(conn)} {incr k} { lappend idle $k }
  } else { incr pg(got); set idle $i }
  if {$pg(got) >= $pg(nimg)} {
    set tot [expr {$tot+$pg(bytes)}]; incr pages; set tlast [$ns now]; start_page; return
  }
  foreach k $idle { if {$pg(asked) < $pg(nimg)} { incr pg(asked); chan_send $k req [draw mah_request_length $rq] } }
}
set tot 0; set pages 0; set tlast 0; set reps 0
for {set i 0} {$i < $o(conn)} {incr i} { mkchan $i req; mkchan $i rep }
$ns at 0.0 start_page
$ns at $o(stop) {
  for {set i 0} {$i < $o(conn)} {incr i} { foreach kind {req rep} { count $ch($i,$kind,t) } }
  puts [format "why=done tcp=%s err=%s p=%s bad=%s topo=%s cong=%s seed=%s bytes=%.0f sec=%.3f pages=%d replies=%d rto=%d rexmt=%d kbps=%.4f" \
    $o(tcp) $o(err) $o(p) $o(bad) $o(topo) $o(cong) $o(seed) $tot $tlast $pages $reps $rto $rexmt [expr {$tlast>0 ? $tot*8/1000.0/$tlast : 0}]]
  exit 0
}
$ns run
